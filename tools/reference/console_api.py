"""`docs/reference/console-api.md`: the JSON of the command and of the console's HTTP API; and its schemas.

All of it is found in the routes of the console, so a new noun or route is described without a change here.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal

from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from tools.reference import GENERATED
from tools.reference.compatibility import NARROWER, NEW_CHOICE, WIDER, find_breaking_changes
from tools.reference.events_page import event_anchors, part_section, type_name
from tools.reference.schemas import PlainSchema

from warrener.operations.noun import OutcomeBody
from warrener.web.site import NOUNS, installed_site
from warrener_contracts.events import JsonObject
from warrener_contracts.json_safety import is_array, is_object

_HEAD = f"""{GENERATED}
# The JSON of the command and the console

The command with `--json` and the HTTP API of the console (`/api/v1`) say the same of a thing in the same
words. A list is a page with the field `next` in the API, and an array of its things in the command. Times
are RFC 3339 in UTC, durations ISO 8601. A required field of an answer is always there. A reader ignores
fields and choices that it does not know: later versions add some, and take none away.

A verb is a POST with these fields as its body. Its answer is an [OutcomeBody](#outcomebody), with status 409
if it is refused. [Roles of the console](console-access.md) lists the roles that may call it.
"""
_TOLERATED = {"answers": (NARROWER, NEW_CHOICE), "bodies": (WIDER,)}
"""Changes that break no program: we alone write answers, and we alone read bodies."""


class _AnswerSchema(PlainSchema):
    """Requires each field that an answer always has, also one with a default."""

    def field_is_required(self, field: Any, total: bool) -> bool:  # noqa: FBT001 - of pydantic
        if self.mode == "serialization":
            return not {"serialization_exclude", "serialization_exclude_if"} & field.keys()
        return super().field_is_required(field, total)


@cache
def api_schemas() -> JsonObject:
    """The JSON Schemas of all answers and of the bodies of all verbs by route, and of their parts."""
    routes = [route for router in installed_site().routers for route in router.routes]
    answers: dict[str, Any] = {
        f"GET {_plain(route.path)}": route.response_model
        for route in routes
        if isinstance(route, APIRoute) and route.response_model is not str
    }
    answers["POST"] = OutcomeBody
    bodies = {f"POST {_plain(action.path)}": action.verb.body for action in installed_site().actions.values()}
    inputs: list[tuple[str, Literal["serialization", "validation"], TypeAdapter[Any]]] = [
        *((name, "serialization", TypeAdapter(kind)) for name, kind in sorted(answers.items())),
        *((name, "validation", TypeAdapter(kind)) for name, kind in sorted(bodies.items())),
    ]
    found, whole = TypeAdapter.json_schemas(inputs, schema_generator=_AnswerSchema)
    return {
        "answers": {name: found[name, "serialization"] for name in sorted(answers)},
        "bodies": {name: found[name, "validation"] for name in sorted(bodies)},
        "$defs": whole["$defs"],
    }


def _plain(path: str) -> str:
    return path.replace(":path}", "}")


def find_breaking_answers(releases: Mapping[str, JsonObject], current: JsonObject) -> Iterator[str]:
    """The changes of `current` that would break a program written for one of these releases."""
    for group, tolerated in _TOLERATED.items():
        released = {release: _by_route(schemas, group) for release, schemas in releases.items()}
        for complaint in find_breaking_changes(released, _by_route(current, group)):
            if not any(words in complaint for words in tolerated):
                yield complaint


def _by_route(schemas: JsonObject, group: str) -> dict[str, JsonObject]:
    return {name: {**schema, "$defs": schemas["$defs"]} for name, schema in schemas[group].items()}


def console_api_page() -> str:
    """The whole page as Markdown; the models of the wire stand on the page of the events."""
    page = "\n".join(_lines()).rstrip() + "\n"
    for name, anchor in event_anchors().items():
        page = page.replace(f"](#{name.lower()})", f"](events.md#{anchor})")
    return page


def _lines() -> Iterator[str]:
    schemas = api_schemas()
    commands = {noun.plural: noun.command or noun.word for noun in NOUNS}
    sections: dict[str, list[tuple[str, str, JsonObject]]] = {}
    for group in ("answers", "bodies"):
        for name, schema in schemas[group].items():
            method, _, path = name.partition(" /")
            sections.setdefault(path.partition("/")[0], []).append((method, path, schema))
    yield _HEAD
    described = set(event_anchors())
    for section, routes in sorted(sections.items()):
        if section:
            yield f"## {section}\n"
            if section in commands:
                yield f"The same by the command: `warrener {commands[section]}`.\n"
            yield "| route below `/api/v1` | |"
            yield "|---|---|"
            for method, path, schema in routes:
                yield f"| `{method} /{path}` | {type_name(schema)} |"
            yield ""
        for _, _, schema in routes:
            yield from _parts_below(schema, schemas["$defs"], described)


def _parts_below(node: Any, parts: Mapping[str, JsonObject], described: set[str]) -> Iterator[str]:
    """Describe each part that a schema leads to, where a reader first meets it."""
    if is_array(node):
        for inner in node:
            yield from _parts_below(inner, parts, described)
    elif is_object(node):
        name = str(node.get("$ref", "")).rpartition("/")[2]
        if name and name not in described:
            described.add(name)
            yield from part_section(name, parts[name])
            yield from _parts_below(parts[name], parts, described)
        for inner in node.values():
            yield from _parts_below(inner, parts, described)
