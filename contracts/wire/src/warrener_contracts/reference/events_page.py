"""`docs/reference/events.md`: every event, who says it to whom, its fields and its golden example."""

import inspect
import json
from collections.abc import Iterator
from typing import Any

from warrener_contracts.events import Event, EventData, JsonObject
from warrener_contracts.messages import encode
from warrener_contracts.reference import GENERATED
from warrener_contracts.reference.examples import golden_events
from warrener_contracts.reference.fields_table import fields_table
from warrener_contracts.reference.routes import Route, routes_of
from warrener_contracts.reference.schemas import shared_schemas
from warrener_contracts.registry import RELEASED, EventClass, type_of
from warrener_contracts.topology import MAX_BODY

_HEAD = f"""{GENERATED}
# The events

Every message is a [CloudEvents 1.0](https://cloudevents.io) event in JSON, with the content type
`application/cloudevents+json`; several of them may go in one message as a JSON array with the content type
`application/cloudevents-batch+json`. The version is part of the `type`. A request has at most {MAX_BODY}
bytes.

**What a reader does.** It ignores fields that it does not know. It takes JSON types strictly: `"3"` is no
number. It refuses text with U+0000, numbers that are not finite and half surrogate pairs, because not every
database can keep them. What it cannot read it parks with the reason; nothing is dropped.

**What a version promises.** A released version never changes but for new optional fields. A new version
comes with an up-caster, and the version before it stays readable; services read a new version one release
before they write it.

Durations may be written as seconds, as `"2m"` or `"1h30m"`, or in ISO 8601 (`"PT2M"`); Warrener writes ISO
8601. Times need an offset; Warrener writes UTC.

## The envelope

"""


def events_page() -> str:
    """The whole page."""
    return _linked("\n".join(_lines()).rstrip() + "\n")


def _linked(page: str) -> str:
    """What an event says has no table of its own: where another one holds it, the link goes to the event."""
    for kind in RELEASED:
        anchor = type_of(kind).replace(".", "")
        page = page.replace(f"](#{_data_of(kind).__name__.lower()})", f"](#{anchor})")
    return page


def _lines() -> Iterator[str]:
    schemas, examples = shared_schemas("#/{model}"), golden_events()
    yield _HEAD.rstrip()
    yield ""
    envelope = schemas["JobRequested"]
    yield from fields_table(_without_data(envelope))
    yield ""
    yield "## All of them"
    yield ""
    yield "| event | says |"
    yield "|---|---|"
    for kind in RELEASED:
        name = type_of(kind)
        yield f"| [`{name}`](#{name.replace('.', '')}) | {_first_sentence(_data_of(kind))} |"
    for kind in RELEASED:
        yield from _event(kind, schemas, examples[type_of(kind)])
    yield "## Parts"
    yield ""
    for name in sorted(_parts(schemas)):
        yield from _part(name, schemas[name])


def _event(kind: EventClass, schemas: dict[str, JsonObject], example: Event[Any]) -> Iterator[str]:
    data = _data_of(kind)
    yield ""
    yield f"## {type_of(kind)}"
    yield ""
    yield _doc(data)
    yield ""
    yield "| exchange | routing key | from | to | |"
    yield "|---|---|---|---|---|"
    for route in routes_of(kind):
        yield _route(route)
    yield ""
    yield from fields_table(schemas[data.__name__])
    yield ""
    yield "```json"
    yield json.dumps(json.loads(encode(example)), indent=2, ensure_ascii=False)
    yield "```"
    yield ""


def _route(route: Route) -> str:
    manner = "persistent" if route.persistent else "fleeting"
    manner += ", mandatory" if route.mandatory else ""
    return (
        f"| `{route.exchange}` | `{route.key}` | {', '.join(route.senders)} | {', '.join(route.receivers)} "
        f"| {manner}. {route.about} |"
    )


def _part(name: str, schema: JsonObject) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    yield str(schema.get("description", "")).replace("\n", " ")
    yield ""
    if "enum" in schema:
        yield "One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + "."
    else:
        yield from fields_table(schema)
    yield ""


def _parts(schemas: dict[str, JsonObject]) -> set[str]:
    events = {kind.__name__ for kind in RELEASED} | {_data_of(kind).__name__ for kind in RELEASED}
    return schemas.keys() - events


def _without_data(schema: JsonObject) -> JsonObject:
    properties = {name: field for name, field in schema["properties"].items() if name != "data"}
    properties["type"] = {
        "type": "string",
        "description": "The event and its version, such as `job.requested.v1`.",
    }
    properties["data"] = {"type": "object", "description": "What the event says: see below."}
    return {"properties": properties, "required": schema["required"]}


def _data_of(kind: EventClass) -> type[EventData]:
    annotation: object = kind.model_fields["data"].annotation
    assert isinstance(annotation, type)
    assert issubclass(annotation, EventData)
    return annotation


def _doc(kind: type[EventData]) -> str:
    return inspect.cleandoc(kind.__doc__ or "")


def _first_sentence(kind: type[EventData]) -> str:
    return " ".join(_doc(kind).split()).split(". ")[0].rstrip(".") + "."
