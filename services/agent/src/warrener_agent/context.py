"""The handler API: the `JobContext` that a running handler uses, and the port behind it."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isnan
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from warrener_agent.ledger.port import Transaction
from warrener_contracts.events import (
    MAX_CHECKPOINT,
    AttemptDispatchedData,
    History,
    JobSignalRequestedData,
    MapMember,
)
from warrener_contracts.fields import parse_duration
from warrener_contracts.json_safety import find_unsafe_value, may_be_unsafe
from warrener_contracts.policy import PolicyOverrides

_log = logging.getLogger("warrener.progress")  # a line of the attempt, in whichever process its handler runs
_MAX_NOTE = 500  # characters of a note that are sent
_NO_HISTORY = History()

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class AttemptFacts(NamedTuple):
    """The facts about an attempt that its handler may know: its dispatch, and those that the agent adds."""

    dispatch: AttemptDispatchedData
    deadline: datetime
    last_checkpoint: Any = None
    traceparent: str | None = None  # of the attempt's span, for handlers in other processes
    tracestate: str | None = None
    baggage: str | None = None
    digest_key: bytes = b""  # of a workflow with encrypted arguments: keys the digests of its calls


@dataclass(frozen=True, slots=True)
class ChildJobSpec:
    """A child job that a handler requests; `arguments` are JSON already."""

    job_type: str
    arguments: dict[str, Any]
    key: str | None
    queue: str | None
    delay_seconds: float | None
    policy: PolicyOverrides | None = None
    detached: bool = False  # of a workflow: it goes on when the workflow ends
    member_of: MapMember | None = None


class SignalSpec(NamedTuple):
    """A signal that a workflow sends, with the id of its event: a repeat is the same signal."""

    event_id: UUID
    data: JobSignalRequestedData


class HandlerPort(Protocol):
    """The agent's side of a running attempt, in whatever thread or process the handler runs."""

    async def execute(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]: ...
    def execute_blocking(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]: ...
    def request(self, spec: ChildJobSpec) -> UUID: ...
    def progress(self, fraction: float, note: str) -> None: ...
    def checkpoint(self, state_text: str) -> None: ...
    def alive(self) -> None: ...
    def lease_ended(self) -> bool: ...
    @property
    def stopping(self) -> bool: ...


class SyncTransaction(Protocol):
    """`Transaction`, for handlers that are plain functions."""

    def execute(self, statement: str, parameters: Parameters = ()) -> list[Mapping[str, Any]]:
        """Run one SQL statement with named parameters (`:name`); with several mappings, once for each.

        Returns the rows, if there are any.
        """
        ...


class JobContext:
    """The running attempt; a handler's parameter annotated with this class receives it."""

    def __init__(self, facts: AttemptFacts, handler_port: HandlerPort) -> None:
        self._facts = facts
        self._handler_port = handler_port
        self._has_warned = False

    @property
    def job_id(self) -> UUID:
        """The id of the job; the same in every attempt."""
        return self._facts.dispatch.job_id

    @property
    def job_type(self) -> str:
        """The job type by which this handler was requested."""
        return self._facts.dispatch.job_type

    @property
    def attempt(self) -> int:
        """The number of this attempt: 1, 2, 3, …"""
        return self._facts.dispatch.attempt

    @property
    def max_attempts(self) -> int:
        """The maximum number of attempts of the job."""
        return self._facts.dispatch.max_attempts

    @property
    def deadline(self) -> datetime:
        """When this attempt is stopped: at its timeout or at the job's deadline, whichever comes first."""
        return self._facts.deadline

    @property
    def idempotency_key(self) -> str:
        """A key for external effects that must not happen twice; the same in every attempt."""
        return str(self._facts.dispatch.job_id)

    @property
    def fence(self) -> int:
        """A fencing token that grows with each attempt: other systems can refuse an older one."""
        return self._facts.dispatch.attempt

    @property
    def history(self) -> History:
        """The earlier attempts of this job that failed, timed out or were lost: the last ten, and counts.

        Empty in a first attempt, and in that of a redriven job. Snoozed and released attempts are not listed.
        """
        return self._facts.dispatch.history or _NO_HISTORY

    async def transaction(self) -> Transaction:
        """Return the attempt's transaction in the ledger's database; each call returns the same one.

        Its writes are committed together with the result and the child jobs when the handler returns, and
        rolled back if the handler raises, is stopped, or was superseded by another attempt. It begins with
        the first statement. On SQLite one handler writes at a time: read and compute first, write last.
        """
        return _Transaction(self._handler_port)

    def transaction_sync(self) -> SyncTransaction:
        """Like `transaction`, for handlers that run in a thread or a child process."""
        return _SyncTransaction(self._handler_port)

    def request(
        self,
        job_type: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        queue: str | None = None,
        delay: timedelta | float | str | None = None,
    ) -> UUID:
        """Request a child job, which is published only if this attempt succeeds; returns its job id.

        `key` identifies one of several child jobs: the same key is the same job, whichever attempt requests
        it. Without keys their order identifies them, so request them in the same order in each attempt.
        """
        plain: dict[str, Any] = to_jsonable_python(dict(arguments or {}))
        seconds = None if delay is None else parse_duration(delay).total_seconds()
        return self._handler_port.request(ChildJobSpec(job_type, plain, key, queue, seconds))

    def progress(self, fraction: float, note: str = "") -> None:
        """Report the progress, from 0 to 1. Cheap: only the latest value is sent, once a second.

        Never raises: a value beyond is set to 0 or 1, one that is no number is left out, and the first such
        value of an attempt is logged.
        """
        (usable, is_changed), text = _usable_fraction(fraction), _usable_note(note)
        if (is_changed or text is not note) and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "job.progress expected a fraction from 0 to 1 and a text, got %s and %s; it counts as %s",
                _usable_note(fraction)[:50],
                type(note).__qualname__,
                "a sign of life" if usable is None else usable,
            )
        if usable is None:
            self._handler_port.alive()
        else:
            self._handler_port.progress(usable, text[:_MAX_NOTE])

    def alive(self) -> None:
        """Give a sign of life, for a job type with a `heartbeat_timeout`; `progress` and `checkpoint` do too.

        Call it as often as you like as the work proceeds, and not from a timer, which knows nothing of the
        work.
        """
        self._handler_port.alive()

    def checkpoint(self, state: Any) -> None:
        """Save a small state, from which another attempt may go on (`last_checkpoint`).

        Returns at once: the state is in the ledger within about a second, and survives the agent's death from
        then on; of several within a second the last is saved. If the attempt fails, snoozes, is released or
        times out, the last one is saved first. A checkpoint is no part of the transaction: a failed attempt
        loses its writes and keeps its checkpoint.

        Raises ValueError for a state that is not JSON, or larger than 16 KiB.
        """
        self._handler_port.checkpoint(encode_checkpoint(state))

    @property
    def last_checkpoint(self) -> Any:
        """The last state that an earlier attempt of this job saved, as JSON data; None if there is none.

        An agent that shares the ledger provides the ledger's. Any other agent provides the last one that the
        supervisor had received when it dispatched this attempt.
        """
        return self._facts.last_checkpoint

    @property
    def stopping(self) -> bool:
        """True if this attempt is to stop: it was cancelled, ran too long, lost its claim, or the agent ends.

        A handler in a thread should check it now and then and return, as nothing else can stop it; coroutines
        are cancelled, and child processes killed. The result of a stopping handler is ignored.
        """
        return self._handler_port.stopping


class _Transaction:
    def __init__(self, handler_port: HandlerPort) -> None:
        self._handler_port = handler_port

    async def execute(self, statement: str, parameters: Parameters = ()) -> list[Mapping[str, Any]]:
        return await self._handler_port.execute(statement, parameters)


class _SyncTransaction:
    def __init__(self, handler_port: HandlerPort) -> None:
        self._handler_port = handler_port

    def execute(self, statement: str, parameters: Parameters = ()) -> list[Mapping[str, Any]]:
        return self._handler_port.execute_blocking(statement, parameters)


def _usable_fraction(fraction: Any) -> tuple[float | None, bool]:
    """Return the number to report, if there is one, and True if it is another than the handler's."""
    try:
        value = float(fraction)
    except Exception:  # noqa: BLE001 - whatever an object of the handler raises
        return None, True
    usable = None if isnan(value) else min(max(value, 0.0), 1.0)
    return usable, usable != value


def _usable_note(note: Any) -> str:
    try:
        return note if isinstance(note, str) else str(note)
    except Exception:  # noqa: BLE001 - the same
        return type(note).__qualname__


def encode_checkpoint(state: Any, what: str = "a checkpoint") -> str:
    """Encode a checkpoint as JSON. Raises ValueError that says what is wrong with it."""
    try:
        text = to_json(state)
    except (PydanticSerializationError, ValueError, TypeError) as error:
        raise ValueError(
            f"expected {what} that can be written as JSON, got {type(state).__qualname__}: {error}"
        ) from error
    if len(text) > MAX_CHECKPOINT:
        raise ValueError(
            f"expected {what} of at most {MAX_CHECKPOINT} bytes of JSON, got {len(text)}: "
            "keep the data elsewhere, and save where it is"
        )
    if may_be_unsafe(text) and (finding := find_unsafe_value(from_json(text))):
        raise ValueError(f"expected {what} that everybody can keep, {finding}")
    return text.decode()
