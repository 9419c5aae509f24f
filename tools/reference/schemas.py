"""The JSON Schema of each event: writers must satisfy it and readers may rely on it."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from warrener_contracts.events import JsonObject
from warrener_contracts.registry import RELEASED, EventClass, type_of

# Our reader supplies these; CloudEvents requires them of writers.
_ALWAYS_REQUIRED = ("specversion", "type")


class PlainSchema(GenerateJsonSchema):
    """Leaves out the title of fields, which would only repeat their names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def tagged_union_schema(self, schema: Any) -> JsonObject:
        """Leaves out `discriminator`, which means something else in AsyncAPI; each choice has a constant."""
        found = super().tagged_union_schema(schema)
        found.pop("discriminator", None)
        return found


def schema_of(kind: EventClass) -> JsonObject:
    """The JSON Schema (draft 2020-12) of one event."""
    schema = _complete(kind, kind.model_json_schema(schema_generator=PlainSchema))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:warrener:event:{type_of(kind)}",
        **schema,
    }


def schemas() -> dict[str, JsonObject]:
    """The schema of each event, by its CloudEvents `type`."""
    return {type_of(kind): schema_of(kind) for kind in RELEASED}


def shared_schemas(reference: str) -> dict[str, JsonObject]:
    """All events and their parts by class name, with references of the form `reference` among them."""
    _, whole = models_json_schema(
        [(kind, "validation") for kind in RELEASED], schema_generator=PlainSchema, ref_template=reference
    )
    parts: dict[str, JsonObject] = whole["$defs"]
    return {**parts, **{kind.__name__: _complete(kind, parts[kind.__name__]) for kind in RELEASED}}


def _complete(kind: EventClass, schema: JsonObject) -> JsonObject:
    required = [*_ALWAYS_REQUIRED, *schema["required"]]
    return {**schema, "title": type_of(kind), "required": required}
