"""Fields that a JSON Schema marks `writeOnly`, as pydantic does for `SecretStr`: handlers alone see their
values. Pure."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from warrener_contracts.json_safety import is_array, is_object

WHOLE = ""
"""In place of a name: the whole document is marked."""
_DATA = {"$defs", "definitions", "default", "const", "enum", "examples"}
_NAMED = ("properties", "patternProperties", "dependentSchemas")  # schemas by names, which are no keywords
_INDEXES = frozenset(map(str, range(100)))


def marked_names(schema: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the names of the marked properties at any depth; one that holds marked items is marked, and the
    whole document is where a reference cannot be followed.

    Each part of the schema is visited once: others may have written it to make the search long.
    """
    named: list[tuple[str, Any]] = [(WHOLE, schema)]
    holders, marked, waiting = dict[int, list[int]](), list[int](), [part for _, part in named]
    seen, hidden = set[int](), set[int]()  # identities of parts
    while waiting:
        part = waiting.pop()
        if id(part) in seen or not (is_object(part) or is_array(part)):
            continue
        seen.add(id(part))
        inner = list(part) if is_array(part) else []
        if is_object(part):
            inner = [part[key] for key in part.keys() - _DATA - {*_NAMED}]
            inner += [
                one for key in _NAMED[1:] if is_object(found := part.get(key)) for one in found.values()
            ]
            if part.get("writeOnly") is True:
                marked.append(id(part))
            if (part is not schema and isinstance(part.get("$id"), str)) or "$dynamicRef" in part:
                marked.append(id(schema))  # references in it begin elsewhere
            if is_object(properties := part.get("properties")):
                named += properties.items()
                waiting += properties.values()
            if isinstance(reference := part.get("$ref"), str):
                inner.append(target := _resolve(schema, reference))
                marked += [id(schema)] if target is None else []
        for one in inner:
            holders.setdefault(id(one), []).append(id(part))
        waiting += inner
    while marked:
        if (one := marked.pop()) not in hidden:
            hidden.add(one)
            marked += holders.get(one, ())
    return frozenset(name for name, part in named if id(part) in hidden)


def _resolve(root: Any, reference: str) -> Any:
    """Follow a JSON pointer; None for a reference of another kind, or to nothing."""
    pointer = unquote(reference)
    if pointer != "#" and not pointer.startswith("#/"):
        return None
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if is_array(root) and key in _INDEXES and int(key) < len(root):
            root = root[int(key)]
        else:
            root = root.get(key) if is_object(root) else None
    return root
