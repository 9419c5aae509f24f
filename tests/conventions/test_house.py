"""The house stays small: a budget for each wheel, one way between modules, no seam or room for one alone."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.conventions import allowed
from tests.conventions.sources import PACKAGES, ROOT, TESTS, modules, tree
from tools import house


class _Class(NamedTuple):
    bases: set[str]
    members: set[str]
    shipped: bool


def protocols_of_one() -> list[str]:
    """Find the protocols that have one shipped implementation and no double in the tests.

    One without a shipped implementation is the shape of an object of others, one of `__call__` alone the
    type of a function.
    """
    protocols = [name for name, one in _classes().items() if one.shipped and "Protocol" in one.bases]
    return [name for name in protocols if _implementations(_members(name)) == [True]]


def _implementations(wanted: set[str]) -> list[bool]:
    """For each class with these members, True if it is shipped."""
    return [
        one.shipped
        for name, one in _classes().items()
        if "Protocol" not in one.bases and wanted != {"__call__"} and wanted <= _members(name)
    ]


@cache
def _members(name: str) -> set[str]:
    one = _classes().get(name)
    if one is None:
        return set()
    return one.members.union(*(_members(base) for base in one.bases if base != name))


@cache
def _classes() -> dict[str, _Class]:
    """Read every class; one of the packages before one of the tests, where two have one name."""
    found: dict[str, _Class] = {}
    for folders in (PACKAGES, TESTS):
        for path in modules(folders):
            for node in ast.walk(tree(path)):
                if isinstance(node, ast.ClassDef):
                    bases = {_base(base) for base in node.bases}
                    found.setdefault(node.name, _Class(bases, {*_named(node)}, folders is PACKAGES))
    return found


def _base(node: ast.expr) -> str:
    node = node.value if isinstance(node, ast.Subscript) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _named(node: ast.ClassDef) -> Iterator[str]:
    for one in node.body:
        match one:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
                yield from (_assigned(one) if name == "__init__" else ())
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case _:
                pass


def _assigned(init: ast.AST) -> Iterator[str]:
    for node in ast.walk(init):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


SIZES = tomllib.loads((ROOT / "tests" / "conventions" / "size.toml").read_text(encoding="utf-8"))
MAX_ROOM = 80
STARTS_OUR_OWN = re.compile(r"\bsys\.executable\b")
MAY_START_OUR_OWN = (
    "/warrener/up/",
    "/warrener/command/services.py",  # `warrener scheduler` becomes the scheduler's process
    "/executors/",
    "/loop_watchdog.py",  # its own watcher, which must not share the interpreter that it watches
    "/warrener_devservers/process.py",  # its own guard, which outlives the process
)
WORLD = ROOT / "tests" / "simulation" / "world.py"
LAZY_FACES = "services/console/src/warrener/command/"


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def keywords(path: Path, function: str) -> set[str]:
    """Return the names of the arguments by which a file calls a function."""
    calls = (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call))
    named = (call for call in calls if isinstance(call.func, ast.Name) and call.func.id == function)
    return {keyword.arg for call in named for keyword in call.keywords if keyword.arg is not None}


def is_program(path: Path) -> bool:
    return '__name__ == "__main__"' in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("wheel", house.wheels(), ids=lambda wheel: wheel.name)
def test_a_wheel_keeps_to_its_budget(wheel: house.Wheel) -> None:
    lines, budget = house.count_lines(house.python_files(wheel.src)), SIZES[wheel.name]["lines"]
    assert lines <= budget, (
        f"expected at most {budget} lines of Python in {wheel.name}, got {lines}; delete some, "
        "or say in the decision record of the feature why the budget in size.toml rises"
    )


def test_no_module_imports_itself_by_others() -> None:
    allowed.check("circles", (" ".join(group) for group in house.circles()), "let one of them import nothing")


def test_no_import_leads_up() -> None:
    found = {
        f"{importer.partition('.')[0]} -> {imported.partition('.')[0]}"
        for importer, imported in house.arrows_up()
    }
    allowed.check("arrows_up", found, "move the code to the lower floor")


def test_a_small_module_of_one_importer_stands_in_it() -> None:
    found = [
        short(house.file_of(one.name))
        for one in house.single_importer_modules()
        if one.lines < MAX_ROOM and "decisions" not in one.name and not is_program(house.file_of(one.name))
    ]
    allowed.check("small_modules", found, "fold it into its importer")


def test_a_protocol_has_two_implementations() -> None:
    allowed.check("protocols", protocols_of_one(), "name the implementation instead of a Protocol")


def test_functions_import_nothing() -> None:
    found = {
        short(path)
        for path in modules(PACKAGES)
        if not short(path).startswith(LAZY_FACES)
        for function in ast.walk(tree(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    allowed.check("imports_in_functions", found, "import it at the top")


def test_our_packages_do_not_start_each_other() -> None:
    found = [
        short(path)
        for path in modules(PACKAGES)
        if not any(place in path.as_posix() for place in MAY_START_OUR_OWN)
        and STARTS_OUR_OWN.search(path.read_text(encoding="utf-8"))
    ]
    allowed.check("child_processes", found, "call it in process")


def test_the_simulation_assembles_what_production_assembles() -> None:
    found = [
        f"{service}: {keyword}"
        for service in ("agent", "scheduler", "supervisor")
        for keyword in keywords(house.file_of(f"warrener_{service}.wiring"), "assemble")
        - keywords(WORLD, f"assemble_{service}")
    ]
    allowed.check(
        "assembled_otherwise", found, "let `assemble` choose the part, or the simulation pass it too"
    )


def test_six_lines_of_other_names_are_found_twice(tmp_path: Path) -> None:
    lines = [f"    value_{number} = call_{number}(first, {number}, 'text')" for number in range(12)]
    one, other, short_one = tmp_path / "one.py", tmp_path / "other.py", tmp_path / "short.py"
    one.write_text("\n".join(["def one():", *lines[:6]]), encoding="utf-8")
    other.write_text("\n".join(["def other(name):", *lines[6:]]), encoding="utf-8")
    short_one.write_text("\n".join(["def short():", *lines[:4]]), encoding="utf-8")
    assert house.shared_pairs([one, other, short_one]) == {(one, other)}


def test_an_exception_that_is_gone_fails() -> None:
    with pytest.raises(AssertionError, match="remove these from"):
        allowed.check("imports_in_functions", [], "")
