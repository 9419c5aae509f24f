"""Targets of calls: a handler of this code base, a declared job type of another, or a name."""

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache, partial
from typing import Any, Generic, NamedTuple, ParamSpec, TypeGuard, TypeVar, cast, get_type_hints
from uuid import UUID

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import ErrorDetails, to_json, to_jsonable_python

from warrener_agent.definitions.job import JobDefinition, definitions_of
from warrener_agent.ledger.port import Transaction
from warrener_contracts.events import MAX_ANSWER, JobSignalRequestedData
from warrener_contracts.json_safety import find_unsafe_value, is_array, is_object

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

_ATOMS = frozenset({str, int, float, bool, type(None)})  # JSON as they are


@dataclass(frozen=True)
class JobType(Generic[P, R_co]):
    """A job type that another code base serves: its name, the model of its arguments, the type of its result.

    Charge = JobType("cards.charge", ChargeArguments, Receipt)
    """

    name: str
    arguments: Callable[P, BaseModel]
    result: type[R_co]


class Target(NamedTuple):
    """A call's job type, its arguments as JSON, and the reader of its result. `check` raises ValueError for
    arguments that the job type does not take, or that cannot be stored."""

    job_type: str
    arguments: dict[str, Any]
    decode: Callable[[Any], Any]
    check: Callable[[], object]


def read_target(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any = Any) -> Target:
    """Read a call. `result` is the type of its result if the target declares none.

    Raises TypeError for arguments that do not fit the target's parameters, and ValueError for bad values of a
    JobType.
    """
    if isinstance(target, str):
        arguments = _by_name(target, args, kwargs)
        return Target(target, arguments, reader(result), partial(_check_stored, target, arguments))
    if _is_job_type(target):
        model: Any = target.arguments
        try:
            given = args[0] if len(args) == 1 and isinstance(args[0], model) else model(*args, **kwargs)
        except ValidationError as error:
            raise ValueError(f"{target.name}: expected other arguments: {lines_of(error)}") from error
        # What was not given is left out: a new optional field is no change of the call.
        plain = given.model_dump(mode="json", by_alias=True, exclude_unset=True)
        plain = _sort_sets(given, plain)
        return Target(target.name, plain, reader(target.result), partial(_check_stored, target.name, plain))
    definition = find_definition(target)
    signature = _parameters(target, definition.signature.context)
    is_bound = not args and kwargs.keys() == signature.parameters.keys()
    bound = dict(kwargs) if is_bound else signature.bind(*args, **kwargs).arguments
    plain = bound if {*map(type, bound.values())} <= _ATOMS else to_plain(bound)
    decode, check = partial(_read, definition.signature.result), partial(check_read, definition, plain)
    return Target(definition.name, plain, decode, check)


def result_reader(target: Any, result: Any = Any) -> Callable[[Any], Any]:
    """The reader of a target's results; `result` is their type if the target declares none."""
    if isinstance(target, str):
        return reader(result)
    if _is_job_type(target):
        return reader(target.result)
    return partial(_read, find_definition(target).signature.result)


def job_type_of(target: Any) -> str:
    """The job type of a target. Raises TypeError for a function that is no handler of one."""
    if isinstance(target, str):
        return target
    return target.name if _is_job_type(target) else find_definition(target).name


def spread(target: Any, item: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """The arguments of one call of a map: the item is all of them, or the only one."""
    if isinstance(target, str):
        return (item,), {}
    if _is_job_type(target):
        return ((), item) if _is_mapping(item) else ((item,), {})
    names = _parameters(target, find_definition(target).signature.context).parameters.keys()
    return ((), item) if _is_mapping(item) and item.keys() <= names else ((item,), {})


def find_definition(handler: Any) -> JobDefinition:
    """The job type of a handler. Raises TypeError unless there is exactly one."""
    found = definitions_of(handler)
    if len(found) != 1:
        name = getattr(handler, "__qualname__", repr(handler))
        have = f"{', '.join(found)}: call one by its name" if found else "none: put @agent.job above it"
        raise TypeError(f"expected the handler of one job type, got {name} with {have}")
    definition = next(iter(found.values()))
    if definition.gather is not None:
        raise TypeError(
            f"expected the name of {definition.name} or its JobType, got its handler, which takes the "
            "arguments of many jobs"
        )
    return definition


def reader(kind: Any) -> Callable[[Any], Any]:
    """A reader of JSON as values of `kind`."""
    return _same if kind is Any else partial(_read, adapter_of(kind))


def step_types(function: Callable[..., Any]) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The writer and the reader of a step's result, by its annotation if it has one."""
    name = name_of(function)
    adapter = (_cached_result if _outlives_turns(function) else _result_adapter)(function)
    if adapter is None:  # such as Awaitable[int]: written as it is
        return partial(_write, name, _cached_adapter(Any)), _same
    return partial(_write, name, adapter), partial(_read, adapter)


def _outlives_turns(function: Any) -> bool:
    """True for a function of a module. To keep a closure would keep what it refers to."""
    return inspect.isfunction(function) and function.__closure__ is None


def _result_adapter(function: Callable[..., Any]) -> TypeAdapter[Any] | None:
    try:
        return adapter_of(get_type_hints(function, include_extras=True).get("return", Any))
    except (NameError, TypeError, PydanticUserError):
        return None


def check_parameters(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raises TypeError for arguments that the function does not take, and for the call of a function."""
    if inspect.iscoroutine(function):
        function.close()
        what = f"a coroutine: write flow.step({function.__name__}, ...)"
        raise TypeError(f"expected a function and its arguments, got {what}")
    try:
        signature = (_cached_signature if _outlives_turns(function) else inspect.signature)(function)
    except ValueError:  # a builtin that says nothing of its parameters
        return
    signature.bind(*args, **kwargs)


def takes_transaction(function: Callable[..., Any]) -> bool:
    """True of a function of which the first parameter is annotated as the ledger's transaction."""
    return (_cached_taking if _outlives_turns(function) else _takes_transaction)(function)


def _takes_transaction(function: Callable[..., Any]) -> bool:
    try:
        hints, names = get_type_hints(function), inspect.signature(function).parameters
    except (NameError, TypeError, ValueError):
        return False
    return bool(names) and hints.get(next(iter(names))) is Transaction


def name_of(function: Any) -> str:
    """The name of a step's function, as the journal has it."""
    while isinstance(function, partial):
        function = function.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return str(name).replace("<locals>.", "")[-200:]


def adapter_of(kind: Any) -> TypeAdapter[Any]:
    try:
        return _cached_adapter(kind)
    except TypeError:  # not hashable
        return TypeAdapter(kind)


@lru_cache(maxsize=1024)
def _cached_adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


_cached_result, _cached_signature = lru_cache(1024)(_result_adapter), lru_cache(1024)(inspect.signature)
_cached_taking = lru_cache(1024)(_takes_transaction)


@lru_cache(maxsize=1024)
def _parameters(handler: Callable[..., Any], context: str | None) -> inspect.Signature:
    signature = inspect.signature(handler)
    taken = [one for name, one in signature.parameters.items() if name != context]
    return signature.replace(parameters=taken)


def _by_name(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    if len(args) > 1 or (args and (kwargs or not _is_mapping(args[0]))):
        raise TypeError(f"{name}: expected its arguments as one mapping or by name, got {args!r:.200}")
    given = args[0] if args else kwargs
    plain: dict[str, Any] = to_plain(dict(given))
    return plain


def to_plain(value: Any, fallback: Callable[[Any], Any] | None = None) -> Any:
    """Arguments as JSON. A set has another order in each process, so it becomes a sorted list."""
    mode: Any = "utf8" if fallback is None else "base64"
    return _sort_sets(value, to_jsonable_python(value, bytes_mode=mode, fallback=fallback))


def _sort_sets(value: Any, plain: Any) -> Any:
    """Sort the lists in `plain`, the JSON of `value`, that were sets."""
    if is_array(plain):
        if isinstance(value, list | tuple | set | frozenset):
            values = list(cast("Collection[Any]", value))
            plain = list(map(_sort_sets, values, plain)) if len(values) == len(plain) else plain
        return sorted(plain, key=to_json) if isinstance(value, set | frozenset) else plain
    if not is_object(plain):
        return plain
    if isinstance(value, BaseModel):
        names = {name: field.serialization_alias or name for name, field in type(value).model_fields.items()}
        value = {names.get(name, name): one for name, one in value}
    elif is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    parts = {str(key): one for key, one in value.items()} if _is_mapping(value) else {}
    return {key: _sort_sets(parts.get(key), of) for key, of in plain.items()}


def _check_stored(name: str, values: Any) -> None:
    if finding := find_unsafe_value(values):
        raise ValueError(f"{name}: expected values that JSON and PostgreSQL can store, {finding}")


def check_read(definition: JobDefinition, arguments: dict[str, Any]) -> None:
    """Raise ValueError for arguments that the job type does not take, or that cannot be stored."""
    _check_stored(definition.name, arguments)
    try:
        definition.signature.read(arguments)
    except ValidationError as error:
        raise ValueError(f"{definition.name}: expected other arguments: {lines_of(error)}") from error


def check_signal(job_id: UUID, name: str, data: Any) -> None:
    """Raise ValueError for a signal that cannot be sent."""
    try:
        JobSignalRequestedData(job_id=job_id, name=name, data=data)
    except ValidationError as error:
        raise ValueError(f"expected a signal that can be sent: {lines_of(error)}") from error
    _check_stored(name, data)
    if (size := len(to_json(data))) > MAX_ANSWER:
        raise ValueError(f"{name}: expected data of at most {MAX_ANSWER} bytes of JSON, got {size}")


def _is_job_type(target: object) -> TypeGuard[JobType[..., Any]]:
    return isinstance(target, JobType)


def _is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _same(value: Any) -> Any:
    return value


def _read(adapter: TypeAdapter[Any], value: Any) -> Any:
    # As text: pydantic reads more from JSON than from Python's values, such as a date from a string.
    return adapter.validate_json(to_json(value))


def _write(name: str, adapter: TypeAdapter[Any], value: Any) -> Any:
    """Raises ValueError, or pydantic's errors, for a result that cannot be in a journal."""
    plain = to_jsonable_python(adapter.dump_python(value, mode="json", warnings="error"))
    if finding := find_unsafe_value(plain):
        raise ValueError(f"expected a result of step {name} that JSON and PostgreSQL can store, {finding}")
    if (size := len(to_json(plain))) > MAX_ANSWER:
        raise ValueError(
            f"expected a result of step {name} of at most {MAX_ANSWER} bytes of JSON, got {size}: keep the "
            "data elsewhere, and return where it is"
        )
    return plain


def lines_of(error: ValidationError, *, shows_type: bool = True) -> str:
    """The refusals of pydantic, without its dump, and with the type of a value in place of it: errors are
    stored and shown to others."""

    def line(one: ErrorDetails) -> str:
        where = "".join(f"{part}." for part in one["loc"])[:-1]
        got = f", got {type(one['input']).__name__}" if shows_type and one["type"] != "missing" else ""
        return f"{where}{': ' if where else ''}{one['msg']}{got}"

    return "; ".join(map(line, error.errors(include_url=False)[:10]))
