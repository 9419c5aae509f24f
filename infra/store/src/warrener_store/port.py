"""The state store: one port, three implementations, one suite (`tests/conformance/test_store.py`).

Every write takes a batch and is one statement; every change is conditional, so that any number of schedulers
and supervisors may work at once and a repeat changes nothing.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_store.checkpoints import JobCheckpoints
from warrener_store.dead_letters import DeadLetterStore
from warrener_store.escalations import Escalations
from warrener_store.fast_dataclass import frozen_dataclass
from warrener_store.parked import ParkedMessage, ParkedMessages
from warrener_store.queued import QueuedJobs
from warrener_store.rows import (
    AgentRow,
    AttemptRow,
    BreakerRow,
    DeadLetter,
    JobFilter,
    JobRow,
    JobTypeRow,
    StateCount,
)
from warrener_store.running import RunningAttempts
from warrener_store.successes import Successes
from warrener_store.trees import CancelledTrees


@frozen_dataclass(frozen=True, slots=True)
class Inserted:
    """What became of one job of an insert. `row` is what the store holds now under its id or its key."""

    row: JobRow
    new: bool  # False: a job by this id, or with this idempotency key, was there before


@frozen_dataclass(frozen=True, slots=True)
class Save:
    """One change of one job: the new row, and what goes with it in the same transaction.

    Applied only where the store holds version `row.version - 1` in a state that is not terminal. Of the row,
    only what has become of the job is written; what was asked for stays as it was inserted.
    """

    row: JobRow
    attempt: AttemptRow | None = None
    dead_letter: DeadLetter | None = None


class StateStore(
    CancelledTrees, JobCheckpoints, QueuedJobs, RunningAttempts, Successes, ParkedMessages, Protocol
):
    """Where schedules, jobs, attempts and dead letters are kept. Errors of the database are StoreUnavailable
    (try again) or StoreRefused (a constraint: a bug).

    Every change of a job (a save, a claim, a lease, a watcher) makes its version grow by one, so that a save
    that was decided on an older row is not applied.
    """

    @property
    def escalations(self) -> Escalations:
        """The cases of the escalation: a port of its own, kept here."""
        ...

    @property
    def dead_letter_store(self) -> DeadLetterStore:
        """Dead letters, and the campaigns over them: a port of its own, kept here."""
        ...

    async def start(self) -> None:
        """Connect. Raises StoreNotMigrated where the tables are not those of this version."""
        ...

    async def close(self) -> None:
        """Disconnect. May be called twice, or never started."""
        ...

    async def ping(self) -> None:
        """One round trip. Raises StoreUnavailable where it does not answer, or could not be written."""
        ...

    async def time(self) -> datetime:
        """The database's clock, in UTC: all who share the store judge time by it."""
        ...

    # -- jobs, by those who decide ------------------------------------------------------------------------

    async def insert_jobs(self, rows: Sequence[JobRow]) -> list[Inserted]:
        """Insert those that are new by id and by idempotency key; one answer for each, in order.

        Two rows of one batch may mean the same job: the first is inserted.
        """
        ...

    async def jobs_by_id(self, job_ids: Collection[UUID]) -> dict[UUID, JobRow]:
        """The jobs that exist of these."""
        ...

    async def save_jobs(self, saves: Sequence[Save]) -> set[UUID]:
        """Apply each change whose version still holds; return the ids of those that were applied.

        Job, attempt and dead letter are written together or not at all. An attempt row that exists stays as
        it is. Several saves of one job in a batch must be successive versions; they are applied together or
        not at all.
        """
        ...

    async def claim_due(
        self, states: Collection[JobState], now: datetime, until: datetime, limit: int
    ) -> list[JobRow]:
        """Jobs in these states with `wake_at <= now`, oldest first, claimed by moving it to `until`.

        No two callers get the same row; whoever dies with a claim loses it at `until`.
        """
        ...

    async def claim_deadlines(self, now: datetime, until: datetime, limit: int) -> list[JobRow]:
        """Jobs that are not over with `deadline_at <= now`, the earliest first, claimed in the same way.

        The claim is kept beside `wake_at`, which does not move: a deadline may pass long before a job is due.
        """
        ...

    async def add_watchers(self, watchers: Sequence[tuple[UUID, str]]) -> set[UUID]:
        """Add reply addresses to jobs that are not over; at most 8 a job, the oldest give way.

        Returns the ids of those jobs. The others are over (or unknown): nobody else will tell their watchers.
        """
        ...

    # -- what agents announce -----------------------------------------------------------------------------

    async def put_job_types(self, job_types: Sequence[JobTypeRow]) -> None:
        """Insert or replace by name; an older announcement does not replace a newer one."""
        ...

    async def job_types(self, names: Collection[str] | None = None) -> dict[str, JobTypeRow]:
        """The job types of these names, or all."""
        ...

    async def put_agents(self, agents: Sequence[AgentRow]) -> None:
        """Insert or update by agent id; an older word does not replace a newer one."""
        ...

    async def agents(self, since: datetime | None = None) -> list[AgentRow]:
        """Agents that were seen at `since` or later (None: all that are kept), the last seen first."""
        ...

    # -- circuit breakers ---------------------------------------------------------------------------------

    async def breakers(self) -> list[BreakerRow]:
        """Every breaker that has ever been open, by name."""
        ...

    async def put_breaker(self, row: BreakerRow) -> bool:
        """Keep its first version, or the one after that which is stored; False where another was faster."""
        ...

    async def release_held_jobs(
        self, job_types: Collection[str], now: datetime, beyond: datetime, limit: int
    ) -> int:
        """Have jobs looked at now that wait or retry, are due, and were put off until after `beyond`; at most
        `limit`, the first due first. How many."""
        ...

    # -- what is buried -----------------------------------------------------------------------------------

    async def park(self, messages: Sequence[ParkedMessage]) -> None:
        """Keep these; of one that is parked already, only `times` grows."""
        ...

    async def parked(self, limit: int = 50) -> list[ParkedMessage]:
        """The newest first."""
        ...

    # -- questions ----------------------------------------------------------------------------------------

    async def list_jobs(self, which: JobFilter) -> list[JobRow]:
        """Jobs, the last accepted first; of those accepted at one moment, the greatest id.

        The next page is asked for with `before`, the id of the last job of this one: it goes on right behind
        that job, whatever was accepted since. Raises UnknownJob where the store has no job by that id.
        """
        ...

    async def attempts_of(self, job_id: UUID) -> list[AttemptRow]:
        """The attempts of one job that are over, in order."""
        ...

    async def dead_letters(self, limit: int = 50) -> list[DeadLetter]:
        """The newest first."""
        ...

    async def count_jobs(self) -> list[StateCount]:
        """How many jobs of each type are in each state."""
        ...


class StoreError(Exception):
    """The root of what a store raises."""


class StoreUnavailable(StoreError):
    """The database does not answer, is locked or full: try again.

    Where the connection broke, the change may have been made all the same; every operation may be repeated.
    """

    outage = True  # its traceback would tell nothing more


class StoreRefused(StoreError):
    """The database refused what the code must never ask for: a bug."""


class UnknownJob(StoreError):
    """There is no job by the id from which a list should go on; nothing can be said of what follows it."""


class StoreNotMigrated(StoreError):
    """The tables are missing, or not those of this version."""
