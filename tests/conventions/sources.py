"""The sources whose names and prose the conventions are about."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tools import house

ROOT = house.ROOT
PACKAGES = sorted(wheel.src for wheel in house.wheels())
TESTS = sorted([ROOT / "infra" / "observability" / "tests", ROOT / "tools", *house.test_folders()])
CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def modules(folders: list[Path]) -> list[Path]:
    found = (path for folder in folders for path in folder.rglob("*.py"))
    return sorted(path for path in found if "conventions" not in path.parts)


def statements() -> list[Path]:
    return sorted(path for folder in PACKAGES for path in folder.rglob("*.sql"))


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path))


def names(path: Path) -> Iterator[str]:
    """What a file names: itself, its classes, functions, parameters and attributes that it assigns."""
    yield path.stem if path.stem != "__init__" else path.parent.name
    for node in ast.walk(tree(path)):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr
            case _:
                pass


@cache
def words(name: str) -> tuple[str, ...]:
    """The words of an identifier, in lower case."""
    return tuple(word.lower() for part in name.split("_") for word in CAMEL.findall(part))


@cache
def prose(path: Path) -> str:
    """What a file says to people: all of a page or of SQL; the comments and strings of a Python file."""
    if path.suffix != ".py":
        return text(path)
    tokens = tokenize.generate_tokens(io.StringIO(text(path)).readline)
    return "\n".join(token.string for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING))


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
