"""`docs/reference/events.md`: every event with its routes, its fields and its golden example."""

import inspect
import json
from collections.abc import Iterator
from typing import Any

from tools.reference import GENERATED
from tools.reference.channels import EventChannel, channels_of
from tools.reference.golden import golden_events
from tools.reference.schemas import shared_schemas

from warrener_contracts.events import Event, EventData, JsonObject
from warrener_contracts.events.envelope import data_of
from warrener_contracts.messages import encode
from warrener_contracts.registry import RELEASED, EventClass, type_of
from warrener_contracts.topology import MAX_BODY

_HEAD = f"""{GENERATED}
# The events

Every message is a [CloudEvents 1.0](https://cloudevents.io) event in JSON, with the content type
`application/cloudevents+json`; several of them may go in one message as a JSON array with the content type
`application/cloudevents-batch+json`. The version is part of the `type`. A request has at most {MAX_BODY}
bytes.

**Readers** ignore unknown fields. They take JSON types strictly: `"3"` is no number. They refuse text with
U+0000, numbers that are not finite and half surrogate pairs, because not every database can store them. They
park unreadable messages with the reason; nothing is dropped.

**Versions.** A released version changes by new optional fields alone. A new version comes with an up-caster,
and the version before it stays readable; services read a new version one release before they write it.

Durations may be written as seconds, as `"2m"` or `"1h30m"`, or in ISO 8601 (`"PT2M"`); Warrener writes ISO
8601. Times need an offset; Warrener writes UTC.

## The envelope

"""


def events_page() -> str:
    """The whole page as Markdown."""
    page = "\n".join(_lines()).rstrip() + "\n"
    for name, anchor in event_anchors().items():
        page = page.replace(f"](#{name.lower()})", f"](#{anchor})")
    return page


def event_anchors() -> dict[str, str]:
    """The anchor of each model of the wire; the data of an event has no section of its own."""
    data = {data_of(kind).__name__: type_of(kind).replace(".", "") for kind in RELEASED}
    return {name: name.lower() for name in shared_schemas("#/{model}")} | data


def _lines() -> Iterator[str]:
    schemas, examples = shared_schemas("#/{model}"), golden_events()
    yield _HEAD.rstrip()
    yield ""
    envelope = schemas["JobRequested"]
    yield from fields_table(_without_data(envelope))
    yield ""
    yield "## All of them"
    yield ""
    yield "| event | meaning |"
    yield "|---|---|"
    for kind in RELEASED:
        name = type_of(kind)
        yield f"| [`{name}`](#{name.replace('.', '')}) | {_first_sentence(data_of(kind))} |"
    for kind in RELEASED:
        yield from _event(kind, schemas, examples[type_of(kind)])
    yield "## Parts"
    yield ""
    for name in sorted(_parts(schemas)):
        yield from part_section(name, schemas[name])


def _event(kind: EventClass, schemas: dict[str, JsonObject], example: Event[Any]) -> Iterator[str]:
    data = data_of(kind)
    yield ""
    yield f"## {type_of(kind)}"
    yield ""
    yield _doc(data)
    yield ""
    yield "| exchange | routing key | from | to | |"
    yield "|---|---|---|---|---|"
    for channel in channels_of(kind):
        yield _route(channel)
    yield ""
    yield from fields_table(schemas[data.__name__])
    yield ""
    yield "```json"
    yield json.dumps(json.loads(encode(example)), indent=2, ensure_ascii=False)
    yield "```"
    yield ""


def _route(channel: EventChannel) -> str:
    route = channel.route
    delivery = "persistent" if route.persistent else "transient"
    delivery += ", mandatory" if route.mandatory else ""
    return (
        f"| `{route.exchange}` | `{route.key}` | {', '.join(route.senders)} | {', '.join(route.receivers)} "
        f"| {delivery}. {_cell(route.about)} |"
    )


def part_section(name: str, schema: JsonObject) -> Iterator[str]:
    """The section of a model, or of the choices of an enumeration."""
    yield f"### {name}"
    yield ""
    yield " ".join(str(schema.get("description", "")).split())
    yield ""
    if "enum" in schema:
        yield "One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + "."
    else:
        yield from fields_table(schema)
    yield ""


def _parts(schemas: dict[str, JsonObject]) -> set[str]:
    events = {kind.__name__ for kind in RELEASED} | {data_of(kind).__name__ for kind in RELEASED}
    return schemas.keys() - events


def _without_data(schema: JsonObject) -> JsonObject:
    properties = {name: field for name, field in schema["properties"].items() if name != "data"}
    properties["type"] = {
        "type": "string",
        "description": "The event and its version, such as `job.requested.v1`.",
    }
    properties["data"] = {"type": "object", "description": "The payload; see below."}
    return {"properties": properties, "required": schema["required"]}


def _doc(kind: type[EventData]) -> str:
    return inspect.cleandoc(kind.__doc__ or "")


def _first_sentence(kind: type[EventData]) -> str:
    return " ".join(_doc(kind).split()).split(". ")[0].rstrip(".") + "."


def fields_table(schema: JsonObject) -> Iterator[str]:
    """One row per field: name, type, required or default, description."""
    required = set(schema.get("required", ()))
    yield "| field | type | | meaning |"
    yield "|---|---|---|---|"
    for name, field in schema["properties"].items():
        must = "required" if name in required else _otherwise(field)
        kind = type_name(field) + (" or null" if name in required and _takes_null(field) else "")
        yield f"| `{name}` | {_cell(kind)} | {must} | {_cell(field.get('description', ''))} |"


def type_name(field: JsonObject) -> str:
    """The type of a field for people; parts link to their own table."""
    if "$ref" in field:
        name = str(field["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if branches := field.get("anyOf") or field.get("oneOf"):
        return " or ".join(type_name(branch) for branch in branches if branch.get("type") != "null")
    if "const" in field:
        return f"`{field['const']}`"
    if field.get("type") == "array":
        return f"array of {type_name(field['items'])}"
    if "enum" in field:
        return "one of " + ", ".join(f"`{value}`" for value in field["enum"])
    name = str(field.get("type", "any JSON value"))
    named = {"date-time": "time (RFC 3339)", "uuid": "UUID", "duration": "duration (ISO 8601)"}
    return named.get(str(field.get("format")), name) + _limits(field)


def _takes_null(field: JsonObject) -> bool:
    return any(branch.get("type") == "null" for branch in field.get("anyOf", ()))


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
