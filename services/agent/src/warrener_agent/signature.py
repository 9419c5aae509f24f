"""A handler's signature, as what may come in and what goes out."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, TypeAdapter, create_model
from pydantic_core import to_json

from warrener_agent.context import JobContext
from warrener_agent.failures import JobDefinitionError
from warrener_agent.outcome_annotations import result_annotation

Handler = Callable[..., Any]
_REFUSED: Mapping[object, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only; arguments come by name: remove the `/`",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments; make it a `list[...]` parameter",
    inspect.Parameter.VAR_KEYWORD: "takes any name; make it a `dict[str, ...]` parameter",
}


@dataclass(frozen=True)
class Signature:
    """How to call a handler with JSON, and how to make JSON of what it returns."""

    context: str | None
    names: Mapping[str, str]  # the model's field of each parameter: a parameter may be called `json` or `_x`
    arguments: type[BaseModel]
    result: TypeAdapter[Any]

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments of a call. Raises pydantic's ValidationError."""
        # As text: from JSON more can be read than from Python's values, such as a date from a string.
        model = self.arguments.__pydantic_validator__.validate_json(
            to_json(arguments, inf_nan_mode="constants")
        )
        fields = model.__dict__
        return {name: fields[field] for name, field in self.names.items()}

    def write(self, value: Any) -> bytes:
        """The result as JSON. Raises ValidationError or PydanticSerializationError."""
        # In two steps: a model inside of it would write null for NaN by itself, and nobody would notice.
        return to_json(self.plain(value), inf_nan_mode="constants")

    def plain(self, value: Any) -> Any:
        """The result as numbers, texts, lists and mappings. Raises as `write` does."""
        valid = self.result.validator.validate_python(value)
        return self.result.serializer.to_python(valid, mode="json", warnings="error")

    @cached_property
    def arguments_schema(self) -> dict[str, Any]:
        return self.arguments.model_json_schema()

    @cached_property
    def result_schema(self) -> dict[str, Any]:
        return self.result.json_schema(mode="serialization")


def read_signature(handler: Handler, job_type: str) -> Signature:
    """Read the signature of `handler`. Raises JobDefinitionError where it cannot be served."""
    hints = _hints(handler, job_type)
    parameters = inspect.signature(handler).parameters.values()
    for parameter in parameters:
        _check(parameter, hints, job_type)
    contexts = [one.name for one in parameters if hints[one.name] is JobContext]
    if len(contexts) > 1:
        raise JobDefinitionError(f"{job_type}: expected one JobContext parameter, got {', '.join(contexts)}")
    if "return" not in hints:
        raise JobDefinitionError(
            f"{job_type}: expected the type of the result (`-> None` for none), got none"
        )
    taken = [one for one in parameters if one.name not in contexts]
    try:
        signature = Signature(
            contexts[0] if contexts else None,
            {one.name: f"field_{number}" for number, one in enumerate(taken)},
            _model(job_type, taken, hints),
            _result(result_annotation(hints["return"])),
        )
        _ = signature.arguments_schema, signature.result_schema  # what has no schema fails here, not at start
    except (PydanticUserError, NameError) as error:
        raise JobDefinitionError(
            f"{job_type}: expected types that can be read from JSON and written to it, got: {error}"
        ) from error
    return signature


def _hints(handler: Handler, job_type: str) -> dict[str, Any]:
    try:
        return get_type_hints(handler, include_extras=True)
    except NameError as error:
        raise JobDefinitionError(
            f"{job_type}: expected annotations that can be found in the module of the handler, got: {error}"
        ) from error


def _check(parameter: inspect.Parameter, hints: Mapping[str, Any], job_type: str) -> None:
    if reason := _REFUSED.get(parameter.kind):
        raise JobDefinitionError(f"{job_type}: parameter {parameter.name} {reason}")
    if parameter.name not in hints:
        raise JobDefinitionError(
            f"{job_type}: expected a type for parameter {parameter.name}, got none: arguments are "
            "checked by it"
        )


def _result(hint: Any) -> TypeAdapter[Any]:
    try:
        # By default pydantic makes null of NaN, so that it would be lost without a word; now it is refused.
        return TypeAdapter(hint, config=ConfigDict(ser_json_inf_nan="constants"))
    except PydanticUserError:  # a model or dataclass, which says itself how it is written
        return TypeAdapter(hint)


def _model(job_type: str, parameters: list[inspect.Parameter], hints: Mapping[str, Any]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for number, one in enumerate(parameters):
        default = ... if one.default is inspect.Parameter.empty else one.default
        fields[f"field_{number}"] = (hints[one.name], Field(default, alias=one.name))
    return create_model(f"Arguments of {job_type}", __config__=ConfigDict(extra="forbid"), **fields)
