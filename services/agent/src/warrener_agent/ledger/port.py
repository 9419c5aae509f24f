"""The ledger: where an agent claims an attempt and records its completion, so that neither happens twice.

Every implementation passes `tests/conformance/test_ledger*.py`. One row a job: the highest attempt claimed,
who holds it until when, and the outcome once there is one.
"""

import json
from collections.abc import Collection, Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from math import inf
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from warrener_agent.ledger.checkpoints import CheckpointStore, SavedCheckpoint


class ClaimStatus(StrEnum):
    """The ledger's answer to a claim."""

    GRANTED = "granted"
    COMPLETED = "completed"  # the job has a recorded outcome: repeat that, do not run it
    FAILED = "failed"  # this very attempt has failed: repeat that, do not run it
    HELD = "held"  # another live agent holds this attempt, or the one before: look again later
    SUPERSEDED = "superseded"  # a later attempt was claimed: drop this one
    CANCELLED = "cancelled"  # the job was cancelled before it was claimed: report that


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A job that a handler asks for; requested only if the attempt succeeds. `request` is its JobRequested
    event as JSON, with an id derived from the parent and the key."""

    key: str
    request: bytes


class Completion(NamedTuple):
    """A success, recorded: what to tell however often it is asked for. The result is JSON as text, written
    once: it is kept and told as it stands."""

    job_id: UUID
    attempt: int
    result_text: str
    follow_ups: tuple[FollowUp, ...]
    started_at: datetime
    finished_at: datetime

    @property
    def result(self) -> Any:
        """What the handler returned, as JSON."""
        return json.loads(self.result_text)


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of an attempt that went wrong, recorded: what to tell should its dispatch come again. `details`
    is JSON. A later attempt takes its place."""

    job_id: UUID
    attempt: int
    details: Any
    started_at: datetime
    finished_at: datetime


class Claim(NamedTuple):
    """An agent wants to run this attempt."""

    job_id: UUID
    attempt: int


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """One batch of a deletion: how many rows went, how many of them were completions, and after which claim
    the next batch begins; None: this was the last one."""

    rows: int = 0
    completions: int = 0
    after: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The answer to one claim; `completion` where it is COMPLETED, `failure` where it is FAILED, `checkpoint`
    where it is GRANTED and something was saved before. `locked` where it is HELD only because another
    transaction holds the row at this moment, perhaps one of this agent: what holds is said later."""

    status: ClaimStatus
    completion: Completion | None = None
    failure: Failure | None = None
    checkpoint: SavedCheckpoint | None = None
    locked: bool = False


class Renewal(NamedTuple):
    """Jobs whose claims were extended, and jobs whose rows another transaction holds at this moment: their
    leases stand as they were. All others are lost."""

    renewed: Set[UUID]
    locked: Set[UUID] = frozenset()


class Transaction(Protocol):
    """A transaction of the ledger's database, for a handler's own writes."""

    async def execute(
        self, statement: str, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] = ()
    ) -> list[Mapping[str, Any]]:
        """Run one SQL statement with named parameters (`:name`); with several mappings, once for each.

        Returns the rows, if it gives any.
        """
        ...


class OpenTransaction(Transaction, Protocol):
    """What the agent does with it; the handler sees only `Transaction`."""

    async def complete(self, completion: Completion) -> bool:
        """Record the completion and commit everything together. False, and everything rolled back, where the
        claim is no longer this agent's: fenced."""
        ...


class Ledger(CheckpointStore, Protocol):
    """Claims, completions and transactions. Fenced: what a superseded or expired holder records is
    refused."""

    async def start(self) -> None:
        """Connect, and make the tables where they are missing."""
        ...

    async def close(self) -> None:
        """Disconnect. May be called twice, or never started."""
        ...

    async def ping(self) -> None:
        """One round trip. Raises LedgerUnavailable where it does not answer, or could not be written."""
        ...

    async def time(self) -> datetime:
        """The database's clock, in UTC: leases are granted by it. Raises LedgerUnavailable."""
        ...

    async def claim(self, claims: Sequence[Claim], *, agent_id: str, lease: timedelta) -> list[ClaimResult]:
        """Claim attempts for `agent_id` until `lease` from now, by the clock of `time`; one answer for each,
        in order.

        A higher attempt supersedes a lower one, and is granted once that was let go or its lease has run out:
        HELD until then, and the holder cannot renew any more. The same attempt is granted again to its
        holder, and to another agent once the holder's lease has run out; once it has failed, to nobody.
        """
        ...

    async def renew(
        self, claims: Sequence[Claim], *, agent_id: str, lease: timedelta, even_awaited: bool = False
    ) -> Renewal:
        """Extend the leases of what is still this agent's to `lease` from now. What is neither kept nor
        locked must stop.

        Claims for which a later attempt waits are lost, unless `even_awaited`: the later attempt waits on.
        """
        ...

    async def complete(self, completions: Sequence[Completion], *, agent_id: str) -> set[UUID]:
        """Record successes of claims that this agent holds; return the jobs recorded. The others were
        fenced."""
        ...

    async def fail(self, failures: Sequence[Failure], *, agent_id: str) -> set[UUID]:
        """Record failures of claims that this agent holds, and let go of them; return the jobs recorded. The
        others were fenced."""
        ...

    async def release(self, claims: Sequence[Claim], *, agent_id: str) -> None:
        """Let go of claims that came to no end: the same attempt may be claimed again at once."""
        ...

    async def cancel(self, job_ids: Collection[UUID], *, now: datetime) -> None:
        """Remember that these are cancelled, so that a later claim is told so. Completed ones stay
        completed."""
        ...

    def transaction(
        self, claim: Claim, *, agent_id: str, time_left: float = inf
    ) -> AbstractAsyncContextManager[OpenTransaction]:
        """Open a transaction for the holder of a claim. Rolled back on leaving, unless it was completed; by
        the database itself after `time_left` seconds, where it can."""
        ...

    async def delete_old(
        self, before: datetime, *, after: datetime | None = None, limit: int = 1000
    ) -> DeletedRows:
        """Look at about `limit` rows that were claimed before `before`, the oldest after `after` first, and
        delete those of them that ended, were released or lost their lease before it, with their checkpoints.

        The longest redelivery must be younger. Two agents never delete at the same time: while another does,
        the answer is that nothing is left.
        """
        ...


class LedgerError(Exception):
    """The root of what a ledger raises."""


class LedgerUnavailable(LedgerError):
    """The database does not answer, is locked or full; nothing was changed, try again."""

    outage = True  # its traceback would tell nothing more
