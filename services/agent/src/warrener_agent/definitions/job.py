"""A job type as an agent serves it: the declaration on the wire, its handler, and the errors it retries."""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from typing import Any, Literal, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from warrener_agent.definitions.isolation import Isolation, IsolationOptions, build_isolation
from warrener_agent.definitions.signature import Handler, Signature, read_gathered_signature, read_signature
from warrener_agent.failures import JobDefinitionError
from warrener_contracts.circuit_breaker import BreakerPolicy
from warrener_contracts.events import JobTypeDeclaration
from warrener_contracts.fields import parse_duration
from warrener_contracts.gates import find_limit_mistake
from warrener_contracts.policy import MAX_LIMITS, Backoff, Guarantee, JobPolicy, Limit, OnFailure, RetryRule
from warrener_contracts.unique import Unique, find_unique_mistake

Errors = tuple[type[BaseException] | str, ...]
"""Exception classes (and what derives from them), or their names, in which `*` is any run of characters."""


def error_type_name(kind: type[BaseException]) -> str:
    """Return the name of an error's class on the wire."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _names(job_type: str, key: str, errors: object) -> tuple[str, ...]:
    if not isinstance(errors, tuple):
        raise JobDefinitionError(
            f"{job_type}: expected {key} as a tuple of exception classes or names, got {errors!r}"
        )
    return tuple(_name(job_type, key, error) for error in cast("tuple[object, ...]", errors))


def _name(job_type: str, key: str, error: object) -> str:
    if isinstance(error, str):
        return error
    if isinstance(error, type) and issubclass(error, BaseException):
        return "*" if error is BaseException else error_type_name(error)
    raise JobDefinitionError(
        f'{job_type}: expected exception classes or names such as "requests.*" in {key}, got {error!r}'
    )


ExecutorName = Literal["coroutine", "thread", "process", "command", "workflow"]
_DEFINITIONS = "__warrener_jobs__"


_MAX_GATHERED = 1_000
_MAX_GATHERING = 5.0
"""Seconds, half of those that a supervisor leaves an agent to end an attempt that runs too long by itself."""


@dataclass(frozen=True, slots=True)
class Gather:
    """Run the handler once for up to `up_to` jobs, or for those of `within` (at most 5 s) after the first."""

    up_to: int
    within: timedelta | float | str = "1s"

    @property
    def seconds(self) -> float:
        return parse_duration(self.within).total_seconds()


class JobOptions(IsolationOptions, total=False):
    """The options of a job type; omitted ones have the defaults of `JobPolicy` and `Isolation`."""

    max_attempts: int
    max_lost_attempts: int
    max_crashes: int
    timeout: timedelta | float | str
    start_timeout: timedelta | float | str
    heartbeat_timeout: timedelta | float | str
    backoff: Backoff
    retry_rules: Sequence[RetryRule]
    max_age: timedelta | float | str
    max_snoozes: int
    dispatch_batch: int
    gather: Gather
    public: bool
    gates: Limit | Sequence[Limit]
    unique: Unique
    depends_on: str | Sequence[str]
    breaker: BreakerPolicy | bool
    encrypted: bool


@dataclass(frozen=True, slots=True)
class JobDefinition:
    declaration: JobTypeDeclaration
    handler: Handler
    signature: Signature
    executor: ExecutorName
    isolation: Isolation
    gather: Gather | None = None

    @property
    def name(self) -> str:
        return self.declaration.name


def define_job(
    name: str,
    handler: Handler,
    *,
    queue: str,
    guarantee: Guarantee | str,
    executor: ExecutorName | None,
    options: JobOptions,
    retry_on: Errors = (),
    no_retry_on: Errors = (),
    on_failure: str = OnFailure.UNDO,
    signature: Signature | None = None,
) -> JobDefinition:
    """Define the job type `name`, run by `handler`; with a `signature`, `handler` is the body of a
    workflow, or makes the call of a program.

    Raises JobDefinitionError that says what is wrong with it.
    """
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise JobDefinitionError(f"{name}: expected a handler that returns its result, got a generator")
    chosen = _executor(name, handler, executor) if signature is None else executor or "command"
    if chosen in ("command", "workflow") and "heartbeat_timeout" in options:
        what = "program" if chosen == "command" else chosen
        raise JobDefinitionError(
            f"{name}: expected no heartbeat_timeout for a {what}, which cannot say that it lives;"
            " give it a timeout"
        )
    if chosen != "coroutine" and options.get("dispatch_batch", 1) != 1:
        raise JobDefinitionError(
            f"{name}: expected dispatch_batch for an `async def` handler alone, got it with executor "
            f"{chosen}:"
            " those that share a message run at once"
        )
    isolation = build_isolation(name, chosen, options)
    if (gather := options.get("gather")) is not None:
        _check_gather(name, gather, chosen, guarantee, options)
        signature = read_gathered_signature(handler, name)
    signature = signature or read_signature(handler, name)
    try:
        declaration = JobTypeDeclaration(
            name=name,
            queue=queue,
            arguments_schema=signature.arguments_schema,
            result_schema=signature.result_schema,
            guarantee=Guarantee(guarantee),
            policy=_policy(
                name, chosen, options, on_failure, signature, retry_on=retry_on, no_retry_on=no_retry_on
            ),
            description=inspect.getdoc(handler) or "",
        )
    except ValidationError as error:
        raise JobDefinitionError(f"{name}: {'; '.join(map(_problem, error.errors()))}") from error
    except ValueError as error:
        raise JobDefinitionError(f"{name}: {error}; one of {', '.join(Guarantee)}") from error
    definition = JobDefinition(declaration, handler, signature, chosen, isolation, gather)
    # On the function, where a child process that imports its module finds it.
    setattr(handler, _DEFINITIONS, {**definitions_of(handler), name: definition})
    return definition


def _check_gather(
    name: str, gather: object, chosen: ExecutorName, guarantee: Guarantee | str, options: JobOptions
) -> None:
    """Raise JobDefinitionError if the jobs of this type cannot share a run."""
    if not isinstance(gather, Gather):
        raise JobDefinitionError(f"{name}: expected gather=Gather(...), got {gather!r}")
    try:
        seconds = gather.seconds
    except (TypeError, ValueError) as error:
        raise JobDefinitionError(f"{name}: expected Gather(within=...) as a time: {error}") from error
    if not 1 <= gather.up_to <= _MAX_GATHERED:
        expected = f"Gather(up_to=...) from 1 to {_MAX_GATHERED}, got {gather.up_to}"
    elif not 0 < seconds <= _MAX_GATHERING:
        expected = f"Gather(within=...) of more than 0 s and at most {_MAX_GATHERING:g} s, got {seconds:g} s"
    elif chosen not in ("coroutine", "thread"):
        expected = f"executor coroutine or thread for gathered jobs, got {chosen}"
    elif guarantee == Guarantee.TRANSACTIONAL:
        expected = (
            "another guarantee for gathered jobs, got transactional: the writes of one call cannot be "
            "committed for one job and rolled back for another"
        )
    elif options.get("dispatch_batch", 1) != 1:
        expected = "no dispatch_batch beside gather: the agent gathers by itself"
    elif "heartbeat_timeout" in options:
        expected = "no heartbeat_timeout beside gather: a sign of life would be that of no one job"
    else:
        return
    raise JobDefinitionError(f"{name}: expected {expected}")


def definitions_of(handler: object) -> Mapping[str, JobDefinition]:
    """The job types that `handler` serves, by name."""
    return getattr(handler, _DEFINITIONS, {})


def _policy(
    name: str,
    chosen: ExecutorName,
    options: JobOptions,
    on_failure: str,
    signature: Signature,
    **errors: Errors,
) -> JobPolicy:
    known = {*JobOptions.__annotations__}
    if unknown := sorted(options.keys() - known):
        if chosen == "workflow":
            known -= {*IsolationOptions.__annotations__, "heartbeat_timeout", "dispatch_batch", "gather"}
        hint = ": a request sets the deadline (expires_after)" if "deadline" in unknown else ""
        raise JobDefinitionError(
            f"{name}: expected options among {', '.join(sorted(known))}, got {', '.join(unknown)}{hint}"
        )
    for rule in options.get("retry_rules", ()):
        if rule.queue is None and rule.timeout_factor is None and not rule.another_agent:
            raise JobDefinitionError(
                f"{name}: expected a queue, a timeout_factor or another_agent in each of retry_rules, "
                f"got {rule!r}"
            )
    rules = {key: _names(name, key, kinds) for key, kinds in errors.items()}
    gates = options.get("gates", ())
    gates = (gates,) if isinstance(gates, Limit) else gates
    if len(gates) > MAX_LIMITS:
        raise JobDefinitionError(f"{name}: expected at most {MAX_LIMITS} gates, got {len(gates)}")
    parts = {**options, "gates": gates, **_breaking(options), **rules, "on_failure": on_failure}
    policy = JobPolicy.model_validate(parts)
    if mistake := find_limit_mistake(policy.gates, signature.required):
        raise JobDefinitionError(f"{name}: key of a limit: {mistake}")
    if mistake := find_unique_mistake(policy.unique, signature.required):
        raise JobDefinitionError(f"{name}: key of unique: {mistake}")
    if policy.unique is not None and policy.encrypted:
        raise JobDefinitionError(
            f"{name}: expected no unique with encrypted: nobody can compare its arguments"
        )
    return policy


def _breaking(options: JobOptions) -> dict[str, Any]:
    """Normalise `depends_on`, which may be one name, and `breaker`, which may be True for the default."""
    needed = options.get("depends_on", ())
    chosen = options.get("breaker", False)
    return {
        "depends_on": (needed,) if isinstance(needed, str) else tuple(needed),
        "breaker": (BreakerPolicy() if chosen else None) if isinstance(chosen, bool) else chosen,
    }


def _problem(found: ErrorDetails) -> str:
    where = ".".join(str(part) for part in found["loc"])
    reason = found["msg"].removeprefix("Value error, ")
    return f"{where}: {reason}" if ", got " in reason else f"{where}: {reason}, got {found['input']!r:.100}"


def _executor(name: str, handler: Handler, chosen: ExecutorName | None) -> ExecutorName:
    waits = inspect.iscoroutinefunction(handler)
    if chosen is None:
        return "coroutine" if waits else "thread"
    if chosen not in ("coroutine", "thread", "process"):
        raise JobDefinitionError(
            f'{name}: expected executor "coroutine", "thread" or "process", got {chosen!r}'
        )
    if chosen == "coroutine" and not waits:
        raise JobDefinitionError(
            f"{name}: expected an `async def` for executor coroutine, got a plain function: it would stop "
            "the whole agent while it runs"
        )
    if chosen == "process" and "<locals>" in handler.__qualname__:
        raise JobDefinitionError(
            f"{name}: expected a handler at the top of its module for executor process, got "
            f"{handler.__qualname__}: the child process could not find it"
        )
    return chosen


def find_definition(module: str, qualname: str, job_type: str) -> JobDefinition:
    """Find the job type of a handler in another process. Raises ImportError that names the handler."""
    home: Any = sys.modules.get(module) or importlib.import_module(module)
    found: Callable[..., Any] = reduce(
        lambda owner, part: getattr(owner, part, None), qualname.split("."), home
    )
    definition: JobDefinition | None = definitions_of(found).get(job_type)
    if definition is None:
        raise ImportError(f"expected the handler of {job_type} as {module}.{qualname}, found {found!r}")
    return definition
