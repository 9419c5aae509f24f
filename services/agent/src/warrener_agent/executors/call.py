"""Calling a handler, the same in every executor: nothing that it does escapes."""

import asyncio
import inspect
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json

from warrener_agent.context import AttemptFacts, Desk, JobContext
from warrener_agent.executors.failure import failure, refusal
from warrener_agent.executors.port import Ended, Raised, Returned
from warrener_agent.failures import WISHES
from warrener_agent.kinds import JobKind
from warrener_contracts.events import ErrorKind
from warrener_contracts.json_safety import may_be_unsafe, find_unsafe_value
from warrener_contracts.topology import MAX_BODY


async def call(kind: JobKind, facts: AttemptFacts, arguments: Mapping[str, Any], desk: Desk) -> Ended:
    """Run an `async def` handler in this event loop. Raises CancelledError where we ourselves are
    cancelled."""
    given = arguments_of(kind, facts, arguments, desk)
    if isinstance(given, Raised):
        return given
    try:
        value = await kind.handler(**given)
    except BaseException as error:  # SystemExit of a handler is its failure, not the agent's end
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        return failure(error, kind.declaration.policy)
    return _ended(kind, value)


def call_blocking(kind: JobKind, facts: AttemptFacts, arguments: Mapping[str, Any], desk: Desk) -> Ended:
    """Run any handler in this thread."""
    if inspect.iscoroutinefunction(kind.handler):
        return asyncio.run(call(kind, facts, arguments, desk))
    given = arguments_of(kind, facts, arguments, desk)
    if isinstance(given, Raised):
        return given
    try:
        value = kind.handler(**given)
    except BaseException as error:  # noqa: BLE001 - SystemExit of a handler is its failure, not the agent's end
        return failure(error, kind.declaration.policy)
    return _ended(kind, value)


def arguments_of(
    kind: JobKind, facts: AttemptFacts, arguments: Mapping[str, Any], desk: Desk
) -> dict[str, Any] | Raised:
    """What the handler is called with, or why it cannot be."""
    try:
        given = kind.signature.read(arguments)
    except ValidationError as error:
        return refusal(ErrorKind.BAD_ARGUMENTS, f"{kind.name}: {_lines(error)}")
    except Exception as error:  # noqa: BLE001 - a validator of the user's that raises what it likes
        return failure(error, kind.declaration.policy)
    if kind.signature.context is not None:
        given[kind.signature.context] = JobContext(facts, desk)
    return given


def _ended(kind: JobKind, value: Any) -> Ended:
    return failure(value, kind.declaration.policy) if isinstance(value, WISHES) else result_of(kind, value)


def result_of(kind: JobKind, value: Any) -> Ended:
    """What is told of a returned value: itself as JSON, or why it cannot be sent."""
    try:
        # Written once: this text is recorded and told. Past this door nobody can refuse it any more.
        text = kind.signature.write(value)
        if may_be_unsafe(text) and (finding := find_unsafe_value(from_json(text))):
            return _unportable(kind, finding)
    except ValidationError as error:
        return refusal(ErrorKind.BAD_RESULT, f"{kind.name} returned what it did not declare: {_lines(error)}")
    except (PydanticSerializationError, ValueError, TypeError) as error:
        if finding := _finding(kind, value):
            return _unportable(kind, finding)
        return refusal(ErrorKind.BAD_RESULT, f"{kind.name} returned what cannot be sent as JSON: {error}")
    if len(text) > MAX_BODY:
        return refusal(
            ErrorKind.BAD_RESULT,
            f"expected a result of at most {MAX_BODY} bytes of {kind.name}, got {len(text)}: put the data "
            "elsewhere and "
            "return its URL",
        )
    return Returned(text.decode())


def _finding(kind: JobKind, value: Any) -> str | None:
    """Half a surrogate pair cannot be written as JSON at all: where one stands."""
    try:
        return find_unsafe_value(kind.signature.plain(value))
    except (PydanticSerializationError, ValueError, TypeError):
        return None


def _unportable(kind: JobKind, finding: str) -> Raised:
    return refusal(ErrorKind.BAD_RESULT, f"{kind.name} returned what not everybody can keep: {finding}")


def _lines(error: ValidationError) -> str:
    errors = error.errors(include_url=False)
    return "; ".join(f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in errors[:10])
