"""Form fields for the arguments of a job type, made from its JSON Schema, and their texts read back. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

Types = tuple[str, ...]  # the JSON types of a value, but null; in order
PREFIX = "argument."  # begins the names of fields that are arguments
_MAX_DEPTH = 20
_MAX_USAGE = 40  # characters of a value
_STRING: Types = ("string",)
_NUMBERS = frozenset({"integer", "number"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentField:
    """One field of a form. `kind`: text, number, select or json."""

    name: str
    kind: str
    value: str = ""
    required: bool = False
    default: str = ""
    about: str = ""
    options: tuple[str, ...] = ()
    types: Types = ()
    step: str = "any"

    @property
    def hint(self) -> str:
        """The value in place of an empty text, for its reader."""
        return f"{self.default} if left out" if self.default else ""

    @property
    def usage(self) -> str:
        """The argument as in a usage line: `path=string`, `[rows=100]`."""
        value = self.default or "|".join(self.options or self.types) or "json"
        value = value if len(value) <= _MAX_USAGE else "…"
        return f"{self.name}={value}" if self.required else f"[{self.name}={value}]"


class ArgumentTextInvalid(ValueError):
    """A text of a form that is not of the type of its argument: "expected X, got Y"."""


def fields_of(schema: Mapping[str, Any], values: Mapping[str, Any]) -> list[ArgumentField]:
    """Make a field for each argument, with these values.

    An argument of these values that the schema does not name gets a field of JSON.
    """
    named = _mapping(schema.get("properties"))
    required = cast("list[str]", schema.get("required", []))
    fields = [
        _field(name, _resolve(schema, part), values, required=name in required)
        for name, part in named.items()
    ]
    return fields + [_field(name, {}, values, required=False) for name in values if name not in named]


def read_arguments(fields: list[ArgumentField], texts: Mapping[str, str]) -> dict[str, Any]:
    """Read the texts of the fields. An empty text leaves an argument out unless it is required.

    Raises ArgumentTextInvalid.
    """
    arguments: dict[str, Any] = {}
    for one in fields:
        text = texts.get(one.name, "")
        if text or (one.required and one.types == _STRING):
            arguments[one.name] = _read(one, text)
    return arguments


def _mapping(value: object) -> Mapping[str, Any]:
    """The value, if it is an object, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _items(value: object) -> list[object]:
    """The items of a list; empty for anything else."""
    return cast("list[object]", value) if isinstance(value, list) else []


def _resolve(schema: Mapping[str, Any], part: object) -> Mapping[str, Any]:
    """The schema of an argument: references into the document are followed, and `X | null` is X."""
    found = _mapping(part)
    for _ in range(_MAX_DEPTH):
        reference, choices = found.get("$ref"), found.get("anyOf")
        if isinstance(reference, str) and reference.startswith("#/"):
            target: Mapping[str, Any] = schema
            for name in reference[2:].split("/"):
                target = _mapping(target.get(name))
            found = {**target, **_without(found, "$ref")}
            continue
        others = [one for one in _items(choices) if one != {"type": "null"}]
        if len(others) != 1:
            break
        found = {**_mapping(others[0]), **_without(found, "anyOf")}
    return found


def _without(part: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key != name}


def _field(name: str, part: Mapping[str, Any], values: Mapping[str, Any], *, required: bool) -> ArgumentField:
    kind, options, types = _kind(part)
    if name in values and values[name] is not None and not _fits(values[name], types, options):
        kind, options, types = "json", (), ()
    default = part.get("default")
    return ArgumentField(
        name=name,
        kind=kind,
        value=_text(values[name], types) if name in values and values[name] is not None else "",
        required=required,
        default="" if default is None else _text(default, types),
        about=str(part.get("description") or "")[:300],
        options=options,
        types=types,
        step="1" if types == ("integer",) else "any",
    )


def _kind(part: Mapping[str, Any]) -> tuple[str, tuple[str, ...], Types]:
    given = part.get("type")
    words = _items(given) or [given]
    types: Types = tuple(sorted(one for one in words if isinstance(one, str) and one != "null"))
    options = _items(part.get("enum"))
    named = tuple(one for one in options if isinstance(one, str))
    if named and len(named) == len(options):
        return "select", named, _STRING
    if types == ("boolean",):
        return "select", ("true", "false"), types
    if types and {*types} <= _NUMBERS:
        return "number", (), types
    if types == _STRING:
        return "text", (), types
    return "json", (), ()


def _fits(value: Any, types: Types, options: tuple[str, ...]) -> bool:
    """True if the field of this kind can hold the value."""
    if isinstance(value, bool):
        return types == ("boolean",)
    if isinstance(value, int | float):
        return not _NUMBERS.isdisjoint(types)
    if isinstance(value, str):
        return types == _STRING and (not options or value in options)
    return False


def _text(value: Any, types: Types) -> str:
    if isinstance(value, str) and types == _STRING:
        return value
    compact = json.dumps(value, ensure_ascii=False)
    return compact if len(compact) <= 60 else json.dumps(value, ensure_ascii=False, indent=2)


def _read(one: ArgumentField, text: str) -> Any:
    if one.types == _STRING:
        return text
    try:
        return json.loads(text)
    except ValueError:
        wanted = " or ".join(sorted(one.types)) or "JSON"
        raise ArgumentTextInvalid(f"{one.name}: expected {wanted}, got {text!r:.60}") from None
