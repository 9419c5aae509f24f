"""Are these arguments what the job type asks for? Pure: no schema is fetched from anywhere."""

import json
from collections import OrderedDict

import jsonschema_rs

from warrener_contracts.events import JsonObject

_MAX_PROBLEMS = 5
_MAX_VALUE_LENGTH = 120  # characters of a value
_MAX_COMPILED = 1000  # compiled schemas


class UnusableSchema(Exception):
    """The library cannot compile it; arguments cannot be checked against it."""


class ArgumentChecker:
    """Makes validators of schemas, each compiled once."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[str, jsonschema_rs.Validator] = OrderedDict()

    def validator(self, schema: JsonObject) -> jsonschema_rs.Validator:
        """What checks against `schema`; raises UnusableSchema. Not for each request: it reads all of it."""
        key = json.dumps(schema, sort_keys=True)
        if (known := self._compiled.get(key)) is not None:
            self._compiled.move_to_end(key)
            return known
        try:
            compiled = jsonschema_rs.validator_for(schema, retriever=_refuse_reference)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise UnusableSchema(str(error).partition("\n")[0]) from error
        self._compiled[key] = compiled
        if len(self._compiled) > _MAX_COMPILED:
            self._compiled.popitem(last=False)
        return compiled


def find_argument_error(validator: jsonschema_rs.Validator, arguments: JsonObject) -> str | None:
    """What is wrong with `arguments`: where, what was expected, what came. None if nothing is."""
    if validator.is_valid(arguments):
        return None
    errors = validator.iter_errors(arguments)
    lines = [_describe_error(error) for error, _ in zip(errors, range(_MAX_PROBLEMS), strict=False)]
    return "; ".join(lines)


def _refuse_reference(uri: str) -> JsonObject:
    """A schema comes whole; fetching parts of it would let whoever announces one make us call anywhere."""
    raise ValueError(f"expected a schema without outside references, got {uri}")


def _describe_error(error: jsonschema_rs.ValidationError) -> str:
    where = ".".join(["arguments", *(str(part) for part in error.instance_path)])
    match error.kind.name:
        case "type":
            expected = " or ".join(str(kind) for kind in error.kind.value)
            return f"{where}: expected {expected}, got {_shorten(error.instance)}"
        case "required":
            return f"{where}: expected {error.kind.value!r}, got none"
        case "additionalProperties":
            return f"{where}: expected no {', '.join(repr(name) for name in error.kind.value)}, got one"
        case "enum":
            return f"{where}: expected one of {_shorten(error.kind.value)}, got {_shorten(error.instance)}"
        case _:
            return f"{where}: {error.message[:300]}"


def _shorten(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}…"
