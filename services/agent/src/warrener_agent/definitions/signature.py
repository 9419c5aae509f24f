"""A handler's signature: the arguments that it accepts, and the result that it returns."""

import inspect
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from types import NoneType, UnionType
from typing import Any, Self, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, RootModel, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema, to_json

from warrener_agent.context import JobContext
from warrener_agent.failures import OUTCOME_EXCEPTIONS, JobDefinitionError
from warrener_contracts.marks import marked_names

Handler = Callable[..., Any]
_REFUSED: Mapping[object, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only; arguments come by name: remove the `/`",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments; make it a `list[...]` parameter",
    inspect.Parameter.VAR_KEYWORD: "takes any name; make it a `dict[str, ...]` parameter",
}


@dataclass(frozen=True)
class Signature:
    """Converts JSON to a handler's arguments, and its result to JSON."""

    context: str | None
    names: Mapping[str, str]  # the model's field of each parameter: a parameter may be called `json` or `_x`
    arguments: type[BaseModel]
    result: TypeAdapter[Any]

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Read the keyword arguments of a call. Raises pydantic's ValidationError."""
        # As text: pydantic reads more from JSON than from Python's values, such as a date from a string.
        model = self.arguments.__pydantic_validator__.validate_json(
            to_json(arguments, inf_nan_mode="constants")
        )
        fields = model.__dict__
        return {name: fields[field] for name, field in self.names.items()}

    def write(self, value: Any) -> bytes:
        """Write the result as JSON. Raises ValidationError or PydanticSerializationError."""
        # In two steps: a model inside the result would silently write null for NaN.
        return to_json(self.plain(value), inf_nan_mode="constants")

    def plain(self, value: Any) -> Any:
        """Convert the result to numbers, texts, lists and mappings. Raises as `write` does."""
        valid = self.result.validator.validate_python(value)
        return self.result.serializer.to_python(valid, mode="json", warnings="error")

    @property
    def required(self) -> list[str]:
        """The arguments without a default."""
        return [*self.arguments_schema.get("required", ())]

    @cached_property
    def arguments_schema(self) -> dict[str, Any]:
        return _with_definition(self.arguments.model_json_schema(schema_generator=_MarkedSchema))

    @cached_property
    def result_schema(self) -> dict[str, Any]:
        return self.result.json_schema(mode="serialization", schema_generator=_MarkedSchema)

    @cached_property
    def secret_names(self) -> frozenset[str]:
        """The arguments whose values appear in no log line and in no error."""
        return marked_names(self.arguments_schema)

    def checked(self) -> Self:
        """Return it if its types have schemas. Raises PydanticUserError."""
        _ = self.arguments_schema, self.result_schema
        return self


class _MarkedSchema(GenerateJsonSchema):
    """Marks `Secret[...]` as `writeOnly`, which pydantic does for `SecretStr` and `SecretBytes` alone."""

    def json_or_python_schema(self, schema: core_schema.JsonOrPythonSchema) -> JsonSchemaValue:
        found = super().json_or_python_schema(schema)
        written: Any = schema.get("serialization", {}).get("function")
        is_secret = getattr(written, "__name__", "") == "_serialize_secret"  # of pydantic.types
        return found | {"writeOnly": True} if is_secret else found


def read_signature(handler: Handler, job_type: str, context: type = JobContext) -> Signature:
    """Read the signature of `handler`; a parameter of the class `context` is none of its arguments.

    Raises JobDefinitionError if it cannot be served.
    """
    hints = _hints(handler, job_type)
    parameters = inspect.signature(handler).parameters.values()
    for parameter in parameters:
        _check(parameter, hints, job_type)
        if context is JobContext and str(hints[parameter.name]).endswith(".workflows.workflow.Workflow'>"):
            raise JobDefinitionError(
                f"{job_type}: expected a JobContext, got a Workflow: use @agent.workflow"
            )
    contexts = [one.name for one in parameters if hints[one.name] is context]
    if len(contexts) > 1:
        raise JobDefinitionError(
            f"{job_type}: expected one {context.__name__} parameter, got {', '.join(contexts)}"
        )
    if "return" not in hints:
        raise JobDefinitionError(
            f"{job_type}: expected the type of the result (`-> None` for none), got none"
        )
    taken = [one for one in parameters if one.name not in contexts]
    names = {one.name: f"field_{number}" for number, one in enumerate(taken)}
    with refuse_unreadable_types(job_type):
        arguments, result = _model(job_type, taken, hints), _result(result_annotation(hints["return"]))
        return Signature(contexts[0] if contexts else None, names, arguments, result).checked()


def read_gathered_signature(handler: Handler, job_type: str) -> Signature:
    """Read the signature of a handler of gathered jobs: it takes a list with the arguments of each, may take
    a `list[JobContext]`, and returns a list with the result, or the exception, of each.

    An item that is an object has all arguments of its job; any other one is the argument of the parameter's
    name. Raises JobDefinitionError if it cannot be served.
    """
    hints = _hints(handler, job_type)
    parameters = inspect.signature(handler).parameters.values()
    for parameter in parameters:
        _check(parameter, hints, job_type)
    contexts = [one.name for one in parameters if hints[one.name] == list[JobContext]]
    taken = [one for one in parameters if one.name not in contexts]
    items = [one.name for one in taken if get_origin(hints[one.name]) in (list, Sequence)]
    returned = hints.get("return")
    if (
        len(taken) != 1
        or not items
        or len(contexts) > 1
        or (returned is not NoneType and get_origin(returned) not in (list, Sequence))
    ):
        raise JobDefinitionError(
            f"{job_type}: expected a handler of gathered jobs as `(items: list[...]) -> list[...]`, with at "
            f"most a `list[JobContext]` beside, got {inspect.signature(handler)}"
        )
    [name], [item] = items, get_args(hints[items[0]])
    result = NoneType if returned is NoneType else result_annotation(get_args(returned)[0], BaseException)
    with refuse_unreadable_types(job_type):
        arguments = create_model(f"Arguments of {job_type}", __base__=RootModel, root=(_strict(item), ...))
        signature = Signature(
            next(iter(contexts), None), {name: "root"}, arguments, _result(result)
        ).checked()
        if signature.arguments_schema.get("type") == "object":
            return signature
        value = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
        return replace(
            signature, names={name: "field_0"}, arguments=_model(job_type, [value], {name: item})
        ).checked()


def _strict(item: Any) -> Any:
    """As with a parameter, a model without a choice of its own refuses unknown arguments."""
    if not isinstance(item, type) or not issubclass(item, BaseModel) or "extra" in item.model_config:
        return cast("Any", item)
    return create_model(item.__name__, __base__=item, __cls_kwargs__={"extra": "forbid"})


def _with_definition(schema: dict[str, Any]) -> dict[str, Any]:
    """Put the definition that is the whole schema in place of the reference to it: forms read properties."""
    if (reference := schema.get("$ref")) is None:
        return schema
    name = reference.removeprefix("#/$defs/")
    definitions = dict(schema["$defs"])
    whole = definitions[name]
    if reference not in json.dumps(definitions):
        del definitions[name]
    return {**whole, "$defs": definitions} if definitions else whole


@contextmanager
def refuse_unreadable_types(job_type: str) -> Generator[None]:
    """Raise JobDefinitionError for types that pydantic does not know."""
    try:
        yield
    except (PydanticUserError, NameError) as error:
        raise JobDefinitionError(
            f"{job_type}: expected types that can be read from JSON and written to it, got: {error}"
        ) from error


def result_annotation(
    hint: Any, errors: type[BaseException] | tuple[type[BaseException], ...] = OUTCOME_EXCEPTIONS
) -> Any:
    """Return the type of the result alone: `int` for `int | Snooze`, None for `Snooze`. `errors`: those that
    may be returned."""
    if _is_error(hint, errors):
        return NoneType
    if get_origin(hint) not in (Union, UnionType):
        return hint
    results: list[Any] = [each for each in get_args(hint) if not _is_error(each, errors)]
    return reduce(lambda one, other: one | other, results) if results else NoneType


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
            f"{job_type}: expected a type for parameter {parameter.name}, got none: arguments are checked "
            "by it"
        )


def _result(hint: Any) -> TypeAdapter[Any]:
    try:
        # By default pydantic makes null of NaN, which would be lost silently; this refuses it.
        return TypeAdapter(hint, config=ConfigDict(ser_json_inf_nan="constants"))
    except PydanticUserError:  # a model or dataclass, which has its own settings
        return TypeAdapter(hint)


def _model(job_type: str, parameters: list[inspect.Parameter], hints: Mapping[str, Any]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for number, one in enumerate(parameters):
        default = ... if one.default is inspect.Parameter.empty else one.default
        fields[f"field_{number}"] = (hints[one.name], Field(default, alias=one.name))
    return create_model(f"Arguments of {job_type}", __config__=ConfigDict(extra="forbid"), **fields)


def _is_error(hint: Any, errors: type[BaseException] | tuple[type[BaseException], ...]) -> bool:
    return isinstance(hint, type) and issubclass(hint, errors)
