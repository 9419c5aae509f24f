"""Measure the house, wheel by wheel: size, and the shapes that `tests/conventions` keeps small.

`python -m tools.house` prints the measures as a table.
"""

import ast
import io
import keyword
import string
import sys
import token
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import grimp

ROOT = Path(__file__).parents[1]
FLOORS = ("contracts", "infra", "client", "services")
"""Top folders from the ground up. An import leads down or stays on its floor."""
SHARED_LINES = 6
_MIN_TOKENS = 28  # in six lines that are alike but for names and values; shorter ones are alike by chance
_MAX_PLACES = 8  # a shape that stands in more is an idiom
_LAYOUT = {token.NEWLINE, token.INDENT, token.DEDENT, token.ENDMARKER, tokenize.NL, tokenize.COMMENT}


class Wheel(NamedTuple):
    """One member of the workspace: what it is installed as, and where its code stands."""

    name: str
    folder: Path

    @property
    def src(self) -> Path:
        """The folder of its packages."""
        return self.folder / "src"

    @property
    def floor(self) -> int:
        """Index in FLOORS."""
        return FLOORS.index(self.folder.relative_to(ROOT).parts[0])


class SmallModule(NamedTuple):
    """A module that one other module imports, and its lines."""

    name: str
    importer: str
    lines: int


@cache
def wheels() -> list[Wheel]:
    """Read the members of the workspace, from the ground up."""
    patterns = _toml(ROOT / "pyproject.toml")["tool"]["uv"]["workspace"]["members"]
    found = sorted(path for pattern in patterns for path in ROOT.glob(f"{pattern}/pyproject.toml"))
    return sorted(
        (Wheel(_toml(path)["project"]["name"], path.parent) for path in found), key=lambda wheel: wheel.floor
    )


def test_folders() -> list[Path]:
    """Find the folders of tests: that of all wheels, and each wheel's own."""
    return [
        path for path in (ROOT / "tests", *(wheel.folder / "tests" for wheel in wheels())) if path.is_dir()
    ]


def python_files(folder: Path) -> list[Path]:
    """Every Python file below this folder."""
    return sorted(folder.rglob("*.py"))


def count_lines(paths: Iterable[Path]) -> int:
    """Count the lines of these files, blank ones too."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def count_code_lines(path: Path) -> int:
    """Count the lines that are neither blank nor comment nor docstring."""
    text = path.read_text(encoding="utf-8")
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = {
        line
        for one in tokenize.generate_tokens(io.StringIO(text).readline)
        if one.type not in _LAYOUT
        for line in range(one.start[0], one.end[0] + 1)
    }
    return len(lines - docstrings)


def count_classes(path: Path) -> int:
    """Count the classes of a file."""
    return sum(
        isinstance(node, ast.ClassDef) for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


@cache
def import_graph() -> grimp.ImportGraph:
    """Read who imports whom in all wheels, imports inside functions included."""
    return grimp.build_graph(
        *(package.name for wheel in wheels() for package in wheel.src.iterdir() if package.is_dir())
    )


@cache
def wheel_of(module: str) -> Wheel:
    """Find the wheel that a module of ours comes with."""
    package = module.partition(".")[0]
    return next(wheel for wheel in wheels() if (wheel.src / package).is_dir())


def file_of(module: str) -> Path:
    """Find the file of a module of ours."""
    path = wheel_of(module).src.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def circles() -> list[list[str]]:
    """Find the groups of modules that import each other, directly or by others."""
    graph = import_graph()
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    below = {module: _reachable(module, imported) for module in graph.modules}
    groups = {frozenset(one for one in below[module] if module in below[one]) for module in graph.modules}
    return sorted(sorted(group) for group in groups if group)


def arrows_up() -> list[tuple[str, str]]:
    """Find the imports that lead from one floor to a higher one, as importer and imported module."""
    graph = import_graph()
    return sorted(
        (importer, imported)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
        if wheel_of(imported).floor > wheel_of(importer).floor
    )


def single_importer_modules() -> list[SmallModule]:
    """Find the modules that one module of the same wheel imports, and nobody else."""
    graph, found = import_graph(), list[SmallModule]()
    for name in sorted(graph.modules):
        importers, path = graph.find_modules_that_directly_import(name), file_of(name)
        if len(importers) == 1 and path.stem not in {"__init__", "__main__"}:
            (importer,) = importers
            if wheel_of(importer) is wheel_of(name) and file_of(importer).stem != "__init__":
                found.append(SmallModule(name, importer, count_lines([path])))
    return found


def shared_pairs(files: Iterable[Path]) -> set[tuple[Path, Path]]:
    """Find the pairs of files, or a file with itself, that share six lines in a row.

    Lines are alike to the letter, or but for names and values. Imports, comments and lone punctuation do not
    count, nor do runs that stand in more than eight places.
    """
    places: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    for path in files:
        lines = _compared_lines(path)
        for start in range(len(lines) - SHARED_LINES + 1):
            window = lines[start : start + SHARED_LINES]
            places[tuple(exact for exact, _ in window)].append((path, start))
            if sum(shape.count(" ") + 1 for _, shape in window) >= _MIN_TOKENS:
                places["shape", *(shape for _, shape in window)].append((path, start))
    return {
        (one, other)
        for found in places.values()
        if len(found) <= _MAX_PLACES
        for (one, first), (other, second) in combinations(found, 2)
        if one != other or second - first >= SHARED_LINES
    }


def _reachable(module: str, imported: dict[str, set[str]]) -> set[str]:
    seen, pending = set[str](), [module]
    while pending:
        new = imported[pending.pop()] - seen
        seen |= new
        pending += new
    return seen


@cache
def _compared_lines(path: Path) -> list[tuple[str, str]]:
    """Read the lines that count, each as it stands and with names and values made alike."""
    text = path.read_text(encoding="utf-8")
    imports = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for one in tokenize.generate_tokens(io.StringIO(text).readline):
        if one.type not in _LAYOUT and one.start[0] not in imports:
            shape = one.string if one.type == token.OP or keyword.iskeyword(one.string) else str(one.type)
            lines[one.start[0]].append((one.string, shape))
    return [
        (" ".join(word for word, _ in tokens), " ".join(shape for _, shape in tokens))
        for tokens in lines.values()
        if any(kind not in string.punctuation for _, kind in tokens)
    ]


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def main() -> int:
    """Print the measures of each wheel, of all wheels, of the tests and of the tools."""
    print(f"{'':22} lines   code  other files classes single  pairs")
    singles = single_importer_modules()
    sources = {wheel: python_files(wheel.src) for wheel in wheels()}
    for wheel, files in sources.items():
        single = sum(wheel_of(one.name) is wheel for one in singles)
        print(_row(wheel.name, files, _other_files(wheel.src), f"{single:6}"))
    every = [path for files in sources.values() for path in files]
    others = [path for wheel in wheels() for path in _other_files(wheel.src)]
    print(_row("in wheels", every, others, f"{len(singles):6}"))
    tests = [path for folder in test_folders() for path in python_files(folder)]
    print(_row("tests", tests, [], " " * 6))
    print(_row("tools", python_files(ROOT / "tools"), [], " " * 6))
    print(f"{'wheels and tests':22} {len(shared_pairs([*every, *tests])):42} pairs")
    print(f"{len(circles())} circles, {len(arrows_up())} arrows up")
    return 0


def _other_files(folder: Path) -> list[Path]:
    return [
        path
        for ending in ("sql", "html", "css", "js")
        for path in folder.rglob(f"*.{ending}")
        if "vendor" not in path.parts
    ]


def _row(name: str, files: list[Path], others: list[Path], single: str) -> str:
    code, classes = sum(map(count_code_lines, files)), sum(map(count_classes, files))
    return (
        f"{name:22}{count_lines(files):6}{code:7}{count_lines(others):7}{len(files):6}{classes:8} {single}"
        f"{len(shared_pairs(files)):7}"
    )


if __name__ == "__main__":
    sys.exit(main())
