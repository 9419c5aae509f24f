"""Write what is generated from the code.

    python -m tools.reference            write the files
    python -m tools.reference --check    write nothing; report outdated files and exit 1
    python -m tools.reference --release  store the schemas and examples of this version

Each of them also fails if a change would break a released event, or a program that reads released JSON of the
console: see `compatibility.py`.
"""

import argparse
import difflib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.reference.compatibility import find_breaking_changes
from tools.reference.console_api import api_schemas, find_breaking_answers
from tools.reference.documents import CONSOLE_RELEASES, RELEASES, documents, snapshots
from tools.reference.schemas import schemas

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Write or check the generated files; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--check", action="store_true", help="write nothing; report outdated files and exit 1"
    )
    choice.add_argument(
        "--release", action="store_true", help="store the schemas and examples of this version"
    )
    options = parser.parse_args(arguments)
    complaints = list(_breaks(root))
    if options.check:
        complaints += _stale(root)
    else:
        _write(root)
        if options.release and not complaints:
            complaints += _release(root)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


def _breaks(root: Path) -> Iterator[str]:
    released = {
        folder.name: {
            file.stem: json.loads(file.read_text("utf-8")) for file in (folder / "schemas").glob("*.json")
        }
        for folder in sorted((root / RELEASES).glob("*"))
    }
    answers = {
        file.stem: json.loads(file.read_text("utf-8")) for file in (root / CONSOLE_RELEASES).glob("*.json")
    }
    complaints = [*find_breaking_changes(released, schemas()), *find_breaking_answers(answers, api_schemas())]
    for complaint in complaints:
        yield f"breaking change: {complaint}"


def _stale(root: Path) -> Iterator[str]:
    wanted = documents()
    for path, text in wanted.items():
        there = (root / path).read_text("utf-8") if (root / path).exists() else ""
        if there != text:
            lines = difflib.unified_diff(
                there.splitlines(), text.splitlines(), str(path), "generated", lineterm=""
            )
            yield "\n".join([f"{path} is not up to date: run make generate", *lines])
    for leftover in _leftovers(root):
        yield f"{leftover.relative_to(root)} belongs to no event: run make generate"


def _write(root: Path) -> None:
    for path, text in documents().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")
    for leftover in _leftovers(root):
        leftover.unlink()


def _leftovers(root: Path) -> list[Path]:
    wanted = {root / path for path in documents()}
    folders = {path.parent for path in wanted if path.parent.name in ("schemas", "golden")}
    return sorted(path for folder in folders for path in folder.glob("*.json") if path not in wanted)


def _release(root: Path) -> Iterator[str]:
    new = {place: files for place, files in snapshots().items() if not (root / place).exists()}
    if not new:
        versions = ", ".join(map(str, snapshots()))
        yield f"expected a version that is not released, got {versions}: raise it in pyproject.toml"
    for files in new.values():
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
