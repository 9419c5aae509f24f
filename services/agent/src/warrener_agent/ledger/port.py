"""The port of the ledger, where an agent claims an attempt and records its completion, each once.

Every implementation passes `tests/conformance/test_ledger*.py`. There is one row a job: the highest attempt
claimed, its holder and lease, and the outcome once there is one.
"""

import json
from collections.abc import Collection, Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from math import inf
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from warrener_contracts.messages import Message

PROCESS_MARK = "/"
"""Stands in the name of a claim's holder between the agent and its process. Names without it are agents."""
HOLDER_MARK = "%HOLDER%"
"""Stands for the agent that held a claim, in the failures that `Ledger.fail_abandoned` records."""


class SavedCheckpoint(NamedTuple):
    """The state that an attempt saved, as JSON, written once; `number` counts on over all attempts."""

    job_id: UUID
    attempt: int
    number: int
    state_text: str


class ClaimStatus(StrEnum):
    """The ledger's answer to a claim."""

    GRANTED = "granted"
    COMPLETED = "completed"  # the job has a recorded outcome: repeat that, do not run it
    FAILED = "failed"  # this very attempt has failed: repeat that, do not run it
    HELD = "held"  # another live agent holds this attempt, or the one before: claim again later
    SUPERSEDED = "superseded"  # a later attempt was claimed: drop this one
    CANCELLED = "cancelled"  # the job was cancelled before it was claimed: report that


@dataclass(frozen=True, slots=True)
class ChildJobRequest:
    """A job that a handler requests, published only if the attempt succeeds. `request` is its JobRequested
    event as JSON, with an id derived from the parent and the key; or the JobCancelRequested of a child job
    that a workflow no longer awaits. `message` is its message, unless the ledger has read it."""

    key: str
    request: bytes
    message: Message | None = field(default=None, compare=False, repr=False)


class Completion(NamedTuple):
    """A recorded success, to be reported as often as its dispatch arrives. The result is JSON as text,
    written once: it is stored and published as it stands."""

    job_id: UUID
    attempt: int
    result_text: str
    child_jobs: tuple[ChildJobRequest, ...]
    started_at: datetime
    finished_at: datetime

    @property
    def result(self) -> Any:
        """The result as JSON data."""
        return json.loads(self.result_text)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure, reported again with its dispatch until a later attempt replaces it; `details` is JSON."""

    job_id: UUID
    attempt: int
    details: Any
    started_at: datetime
    finished_at: datetime


class Claim(NamedTuple):
    """The attempt that an agent claims."""

    job_id: UUID
    attempt: int


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """One batch of a deletion: how many rows were deleted, how many of them were completions, and after which
    claim the next batch begins; None: this was the last one."""

    rows: int = 0
    completions: int = 0
    after: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The answer to one claim: with `completion` if COMPLETED, `failure` if FAILED, `checkpoint` if GRANTED
    and an earlier attempt saved one.

    `locked`: HELD only because another transaction holds the row at this moment, perhaps one of this agent;
    claim again later for the real answer.
    """

    status: ClaimStatus
    completion: Completion | None = None
    failure: Failure | None = None
    checkpoint: SavedCheckpoint | None = None
    locked: bool = False


class Renewal(NamedTuple):
    """Jobs whose claims were extended, and jobs whose rows another transaction holds at this moment, so that
    their leases are unchanged. All others are lost."""

    renewed: Set[UUID]
    locked: Set[UUID] = frozenset()


class Transaction(Protocol):
    """A transaction of the ledger's database, for a handler's own writes."""

    async def execute(
        self, statement: str, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] = ()
    ) -> list[Mapping[str, Any]]:
        """Run one SQL statement with named parameters (`:name`); with several mappings, once for each.

        Returns the rows, if there are any.
        """
        ...


class OpenTransaction(Transaction, Protocol):
    """The agent's view of a transaction; the handler sees only `Transaction`."""

    async def complete(self, completion: Completion) -> bool:
        """Record the completion and commit everything together. False, and everything rolled back, if the
        claim is no longer this agent's."""
        ...


class Ledger(Protocol):
    """Claims, completions, checkpoints, transactions. A superseded or expired holder records nothing."""

    async def start(self) -> None:
        """Connect, and make missing tables."""

    async def close(self) -> None:
        """Disconnect. May be called twice, or never started."""

    async def ping(self) -> None:
        """Make one round trip. Raises LedgerUnavailable without an answer, or if it is read-only."""

    async def time(self) -> datetime:
        """Return the time of the database's clock, in UTC, which leases go by. Raises LedgerUnavailable."""
        ...

    async def claim(self, claims: Sequence[Claim], *, agent_id: str, lease: timedelta) -> list[ClaimResult]:
        """Claim attempts for `agent_id` until `lease` from now, by the clock of `time`; one answer for each,
        in order.

        A higher attempt supersedes a lower one, and is granted once that was released or its lease has run
        out: HELD until then, and the holder can no longer renew. The same attempt is granted again to its
        holder, and to another one once the holder's lease has run out; once it has failed, to none.
        """
        ...

    async def renew(
        self, claims: Sequence[Claim], *, agent_id: str, lease: timedelta, even_awaited: bool = False
    ) -> Renewal:
        """Extend the leases of claims that are still this agent's to `lease` from now. The handler of a claim
        that is neither renewed nor locked must stop.

        Claims for which a later attempt waits are lost, unless `even_awaited`: the later attempt waits on.
        """
        ...

    async def complete(self, completions: Sequence[Completion], *, agent_id: str) -> set[UUID]:
        """Record successes of claims that this agent holds; return the jobs recorded, others were fenced."""
        ...

    async def fail(self, failures: Sequence[Failure], *, agent_id: str) -> set[UUID]:
        """Record failures of claims that this agent holds, and release these; return the jobs recorded. The
        others were fenced."""
        ...

    async def fail_abandoned(self, failures: Sequence[Failure], *, agent_id: str) -> set[UUID]:
        """Record failures of attempts whose holders have died, and release these; return the jobs recorded.

        A holder has died if its lease has ended, or if it was an earlier process of the same agent (the name
        before `PROCESS_MARK`). No claim of such an attempt is granted from then on.
        """
        ...

    async def save_checkpoints(
        self, checkpoints: Sequence[SavedCheckpoint], *, agent_id: str, now: datetime
    ) -> set[UUID]:
        """Save states of claims that this agent holds, one for each job, in place of earlier ones; return the
        jobs saved. The others were fenced. A granted claim carries the last one, of whichever attempt."""
        ...

    async def release(self, claims: Sequence[Claim], *, agent_id: str) -> None:
        """Release claims that came to no end: the same attempt may be claimed again at once."""

    async def cancel(self, job_ids: Collection[UUID], *, now: datetime) -> None:
        """Mark these jobs as cancelled, for later claims. Completed ones stay completed."""

    def transaction(
        self, claim: Claim, *, agent_id: str, time_left: float = inf
    ) -> AbstractAsyncContextManager[OpenTransaction]:
        """Open a transaction for the holder of a claim. It is rolled back on leaving, unless completed; by
        the database itself after `time_left` seconds, if it can."""
        ...

    async def delete_old(
        self, before: datetime, *, after: datetime | None = None, limit: int = 1000
    ) -> DeletedRows:
        """Read about `limit` rows that were claimed before `before`, the oldest after `after` first, and
        delete those that ended, were released or lost their lease before it, with their checkpoints.

        The longest redelivery must be younger. Two agents never delete at the same time: while another does,
        this one finds nothing left.
        """
        ...


class LedgerError(Exception):
    """The base of a ledger's errors."""


class LedgerUnavailable(LedgerError):
    """The database does not answer, is locked or full. Nothing was changed; try again."""

    outage = True  # its traceback adds nothing
