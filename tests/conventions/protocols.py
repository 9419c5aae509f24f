"""The protocols of the packages, and the classes that have all of their members."""

import ast
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tests.conventions.sources import PACKAGES, TESTS, modules, tree


class _Class(NamedTuple):
    bases: set[str]
    members: set[str]
    shipped: bool


def protocols_of_one() -> list[str]:
    """Find the protocols that have one shipped implementation and no double in the tests.

    One without a shipped implementation is the shape of an object of others, one of `__call__` alone the
    type of a function.
    """
    found = [_implementations(name) for name in _protocols()]
    return [name for name, shipped, doubles in found if len(shipped) == 1 and not doubles]


def _protocols() -> list[str]:
    return [name for name, one in _classes().items() if one.shipped and "Protocol" in one.bases]


def _implementations(protocol: str) -> tuple[str, list[str], list[str]]:
    wanted = _members(protocol)
    found = [
        name
        for name, one in _classes().items()
        if "Protocol" not in one.bases and wanted != {"__call__"} and wanted <= _members(name)
    ]
    shipped = [name for name in found if _classes()[name].shipped]
    return protocol, shipped, [name for name in found if name not in shipped]


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
