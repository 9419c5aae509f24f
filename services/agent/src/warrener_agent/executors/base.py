"""The interface of all executors, and the call of a handler: nothing that a handler does escapes it."""

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json

from warrener_agent.context import AttemptFacts, HandlerPort, JobContext
from warrener_agent.decisions import errors
from warrener_agent.definitions.job import JobDefinition
from warrener_agent.failures import OUTCOME_EXCEPTIONS
from warrener_agent.log_buffer import NO_LOG, LogBuffer
from warrener_agent.run_table import Run
from warrener_agent.workflows.targets import lines_of
from warrener_contracts.events import ErrorKind, FlightRecord
from warrener_contracts.json_safety import find_unsafe_value, may_be_unsafe
from warrener_contracts.topology import MAX_BODY


class HandlerCall(NamedTuple):
    """A handler to be run in an attempt. `log` takes what it logs. `set_off_loop`: called by an executor
    whose handlers run in the event loop for some time, and outside it for some. `run`: that of an agent.
    `restart_timeout`: called when a gathered handler begins, from when its timeout counts; returns the facts.
    `run_recorded` runs a step of a workflow in a transaction of the ledger.
    """

    definition: JobDefinition
    facts: AttemptFacts
    port: HandlerPort
    log: LogBuffer = NO_LOG
    set_off_loop: Callable[[bool], None] = lambda _: None
    run: Run | None = None
    restart_timeout: Callable[[], AttemptFacts] | None = None
    run_recorded: Callable[[Any], Awaitable[Any]] | None = None


class Execution(Protocol):
    @property
    def done(self) -> asyncio.Future[errors.HandlerEnd]:
        """The handler's end. Never raises what the handler raised. Do not cancel it."""
        ...

    @property
    def flight_record(self) -> FlightRecord | None:
        """The record taken just before the handler was stopped, where the executor can take one."""
        ...

    async def stop(self) -> bool:
        """Stop the handler; False if it cannot be stopped and goes on, abandoned."""
        ...


class Executor(ABC):
    @abstractmethod
    def begin(self, handler_call: HandlerCall) -> Execution:
        """Begin to run a handler."""

    async def close(self) -> None:
        """Release what is kept for later attempts; most executors keep nothing."""
        return


async def call(handler_call: HandlerCall) -> errors.HandlerResult:
    """Run an `async def` handler in this event loop. Raises CancelledError if the caller is cancelled."""
    given, definition = bind_arguments(handler_call), handler_call.definition
    if isinstance(given, errors.HandlerRaised):
        return given
    try:
        value = await definition.handler(**given)
    except BaseException as error:  # SystemExit of a handler is its failure, not the agent's end
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        return errors.describe_error(error, definition.declaration.policy)
    return to_result(definition, value)


def call_blocking(handler_call: HandlerCall) -> errors.HandlerResult:
    """Run any handler in this thread."""
    definition = handler_call.definition
    if inspect.iscoroutinefunction(definition.handler):
        return asyncio.run(call(handler_call))
    given = bind_arguments(handler_call)
    if isinstance(given, errors.HandlerRaised):
        return given
    try:
        value = definition.handler(**given)
    except BaseException as error:  # noqa: BLE001 - SystemExit of a handler is its failure, not the agent's end
        return errors.describe_error(error, definition.declaration.policy)
    return to_result(definition, value)


def bind_arguments(handler_call: HandlerCall) -> dict[str, Any] | errors.HandlerRaised:
    """Return the keyword arguments of the call, or why the handler cannot be called."""
    given, context = read_arguments(handler_call), handler_call.definition.signature.context
    if context is not None and not isinstance(given, errors.HandlerRaised):
        given[context] = JobContext(handler_call.facts, handler_call.port)
    return given


def read_arguments(handler_call: HandlerCall) -> dict[str, Any] | errors.HandlerRaised:
    """Return the arguments that the job was requested with, as the handler takes them."""
    definition, facts = handler_call.definition, handler_call.facts
    try:
        return definition.signature.read(facts.dispatch.arguments)
    except ValidationError as error:
        return errors.permanent_failure(
            ErrorKind.BAD_ARGUMENTS, f"{definition.name}: {lines_of(error, shows_type=False)}"
        )
    except Exception as error:  # noqa: BLE001 - a user's validator may raise anything
        return errors.describe_error(error, definition.declaration.policy)


def to_result(definition: JobDefinition, value: Any) -> errors.HandlerResult:
    """Return what a handler's value means: its result, or the exception that it returned in place of one."""
    return (
        errors.describe_error(value, definition.declaration.policy)
        if isinstance(value, OUTCOME_EXCEPTIONS)
        else encode_result(definition, value)
    )


def encode_result(definition: JobDefinition, value: Any) -> errors.HandlerResult:
    """Encode a returned value as JSON, or describe why it cannot be sent."""
    try:
        # Written once: this text is recorded and published, and nothing behind this point can refuse it.
        text = definition.signature.write(value)
        if may_be_unsafe(text) and (finding := find_unsafe_value(from_json(text))):
            return _unportable(definition, finding)
    except ValidationError as error:
        return errors.permanent_failure(
            ErrorKind.BAD_RESULT,
            f"{definition.name} returned what it did not declare: {lines_of(error, shows_type=False)}",
        )
    except (PydanticSerializationError, ValueError, TypeError) as error:
        if finding := _find_unportable(definition, value):
            return _unportable(definition, finding)
        return errors.permanent_failure(
            ErrorKind.BAD_RESULT, f"{definition.name} returned what cannot be sent as JSON: {error}"
        )
    if len(text) > MAX_BODY:
        return errors.permanent_failure(
            ErrorKind.BAD_RESULT,
            f"expected a result of at most {MAX_BODY} bytes of {definition.name}, got {len(text)}: "
            "put the data elsewhere and return its URL",
        )
    return errors.HandlerReturned(text.decode())


def _find_unportable(definition: JobDefinition, value: Any) -> str | None:
    """Find half a surrogate pair, which cannot be written as JSON at all."""
    try:
        return find_unsafe_value(definition.signature.plain(value))
    except (PydanticSerializationError, ValueError, TypeError):
        return None


def _unportable(definition: JobDefinition, finding: str) -> errors.HandlerRaised:
    return errors.permanent_failure(
        ErrorKind.BAD_RESULT, f"{definition.name} returned what not everybody can keep: {finding}"
    )
