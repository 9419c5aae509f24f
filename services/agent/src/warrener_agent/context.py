"""What a handler may ask of its agent while it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from pydantic_core import to_jsonable_python

from warrener_agent.checkpoint_codec import encode_checkpoint
from warrener_agent.ledger.port import Transaction
from warrener_contracts.durations import parse_duration

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class AttemptFacts(NamedTuple):
    """Which attempt this is."""

    job_id: UUID
    job_type: str
    attempt: int
    max_attempts: int
    deadline: datetime
    last_checkpoint: Any = None


@dataclass(frozen=True, slots=True)
class FollowUpSpec:
    """A follow-up that a handler asks for; `arguments` are JSON already."""

    job_type: str
    arguments: dict[str, Any]
    key: str | None
    queue: str | None
    delay_seconds: float | None


class HandlerPort(Protocol):
    """The agent's side of a running attempt, whatever thread or process the handler runs in."""

    async def execute(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]: ...
    def execute_blocking(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]: ...
    def request(self, spec: FollowUpSpec) -> UUID: ...
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

        Returns the rows, if it gives any.
        """
        ...


class JobContext:
    """The attempt that a handler runs, handed to the parameter that is annotated with this class."""

    def __init__(self, facts: AttemptFacts, handler_port: HandlerPort) -> None:
        self._facts = facts
        self._handler_port = handler_port

    @property
    def job_id(self) -> UUID:
        """The job; the same in every attempt."""
        return self._facts.job_id

    @property
    def job_type(self) -> str:
        """The name under which this handler was asked for."""
        return self._facts.job_type

    @property
    def attempt(self) -> int:
        """Which try this is: 1, 2, 3, …"""
        return self._facts.attempt

    @property
    def max_attempts(self) -> int:
        """How many tries the job has."""
        return self._facts.max_attempts

    @property
    def deadline(self) -> datetime:
        """When this attempt is stopped: its timeout, or the job's deadline where that comes first."""
        return self._facts.deadline

    @property
    def idempotency_key(self) -> str:
        """What to send to others with an effect that must not happen twice: the same in every attempt."""
        return str(self._facts.job_id)

    @property
    def fence(self) -> int:
        """A number that grows with each attempt: others can refuse the word of an older one."""
        return self._facts.attempt

    async def transaction(self) -> Transaction:
        """The attempt's transaction of the ledger's database; asked for again, it is the same one.

        What is written through it is committed together with the result and the follow-ups when the handler
        returns, and rolled back when it raises, is stopped, or was overtaken by another attempt. It begins
        with the first statement. On SQLite one handler writes at a time: read and compute first, write last.
        """
        return _Transaction(self._handler_port)

    def transaction_sync(self) -> SyncTransaction:
        """`transaction` for handlers that run in a thread or a child process."""
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
        """Ask for a follow-up job once this attempt has succeeded, and only then; returns its job id.

        `key` tells the follow-ups of one job apart: the same key is the same job, whichever attempt asks.
        Without one they are told apart by their order, so ask in the same order in each attempt.
        """
        plain: dict[str, Any] = to_jsonable_python(dict(arguments or {}))
        seconds = None if delay is None else parse_duration(delay).total_seconds()
        return self._handler_port.request(FollowUpSpec(job_type, plain, key, queue, seconds))

    def progress(self, fraction: float, note: str = "") -> None:
        """Say how far it is, from 0 to 1. Cheap: at most one message a second is sent, the latest one."""
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"expected a fraction from 0 to 1, got {fraction!r}")
        self._handler_port.progress(float(fraction), note[:500])

    def alive(self) -> None:
        """Say that it goes on, where its job type has a `heartbeat_timeout`; `progress` and `checkpoint` say
        it too. Call it as often as you like, where the work moves on, and not from a timer: that would say
        nothing about the work."""
        self._handler_port.alive()

    def checkpoint(self, state: Any) -> None:
        """Save a small state, so that another attempt may go on from there (`last_checkpoint`).

        Returns at once: the state is in the ledger within about a second, and survives the agent's death from
        then on; of several within a second the last is saved. When the attempt fails, snoozes, is released or
        times out, the last one is saved first. It is no part of the transaction: what is written through that
        is gone with a failed attempt, and the checkpoint stays.

        Raises ValueError for what is no JSON, or larger than 16 KiB.
        """
        self._handler_port.checkpoint(encode_checkpoint(state))

    @property
    def last_checkpoint(self) -> Any:
        """What an earlier run of this job has saved last, as JSON data; None if there is nothing.

        An attempt on an agent that shares the ledger finds what the ledger has. Elsewhere it finds what the
        supervisor had heard of when it dispatched this attempt.
        """
        return self._facts.last_checkpoint

    @property
    def stopping(self) -> bool:
        """Whether this attempt is to stop: it was cancelled, has run for too long, has lost its claim, or the
        agent ends. Handlers in threads look at it now and then and return, as nothing else can stop them;
        coroutines are cancelled, and child processes killed. What is returned then counts for nothing."""
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
