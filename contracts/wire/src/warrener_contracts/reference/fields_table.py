"""The fields of a schema as a Markdown table."""

from collections.abc import Iterator
from typing import Any

from warrener_contracts.events import JsonObject


def fields_table(schema: JsonObject) -> Iterator[str]:
    """One line a field: name, type, whether it must be there, what it means."""
    required = set(schema.get("required", ()))
    yield "| field | type | | meaning |"
    yield "|---|---|---|---|"
    for name, field in schema["properties"].items():
        must = "required" if name in required else _otherwise(field)
        yield f"| `{name}` | {_cell(type_name(field))} | {must} | {_cell(field.get('description', ''))} |"


def type_name(field: JsonObject) -> str:
    """The type of a field as a reader wants to see it; parts are links to their own table."""
    if "$ref" in field:
        name = str(field["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if branches := field.get("anyOf") or field.get("oneOf"):
        return " or ".join(type_name(branch) for branch in branches if branch.get("type") != "null")
    if "const" in field:
        return f"`{field['const']}`"
    if field.get("type") == "array":
        return f"array of {type_name(field['items'])}"
    name = str(field.get("type", "any JSON value"))
    named = {"date-time": "time (RFC 3339)", "uuid": "UUID", "duration": "duration (ISO 8601)"}
    return named.get(str(field.get("format")), name) + _limits(field)


def _limits(field: JsonObject) -> str:
    limits: list[str] = []
    if "minimum" in field or "maximum" in field:
        limits.append(f"{_number(field.get('minimum', ''))}…{_number(field.get('maximum', ''))}")
    if "maxLength" in field:
        limits.append(f"at most {field['maxLength']} characters")
    if "pattern" in field:
        limits.append(f"`{field['pattern']}`")
    if "examples" in field:
        limits.append("such as " + ", ".join(f"`{example}`" for example in field["examples"]))
    return f" ({'; '.join(limits)})" if limits else ""


def _number(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _otherwise(field: JsonObject) -> str:
    default = field.get("default")
    if default is None or isinstance(default, dict):
        return "optional"
    text = "true" if default is True else "false" if default is False else default
    return f"`{text}`" if text != "" else "empty"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
