"""The ports of jobs: small Protocols that the engine of a store implements together.

Every change takes a batch and is conditional, so that any number of schedulers and supervisors may work at
once and a repeat changes nothing. Suites: `tests/conformance/test_store*.py`.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptRow, Inserted, JobFilter, JobRow, Save, StateCount
from warrener_store.jobs.views import (
    FIRST_ID,
    CancelledTree,
    CheckpointRow,
    ChildJob,
    QueuedGroup,
    QueuedJob,
    QueueHead,
    RunningAttemptRow,
    SucceededJob,
    Success,
)


class JobStore(Protocol):
    """Jobs, their attempts and counts.

    Every change of a job (a save, a claim, a lease, a watcher) makes its version grow by one, so that a save
    that was decided on an older row is not applied.
    """

    async def insert_jobs(
        self, rows: Sequence[JobRow], *, without_keys: Collection[UUID] = ()
    ) -> list[Inserted]:
        """Insert the jobs that are new by id and by idempotency key; one answer for each row, in order.

        Two rows of one batch may be the same job: the first is inserted. Those of `without_keys` that are
        over lose their idempotency keys first.
        """
        ...

    async def jobs_by_id(self, job_ids: Collection[UUID]) -> dict[UUID, JobRow]:
        """The jobs of these ids that exist."""
        ...

    async def save_jobs(self, saves: Sequence[Save]) -> set[UUID]:
        """Apply each change whose version still holds; return the ids of the jobs that were changed.

        Job, attempt and dead letter are written together or not at all. An attempt row that exists stays as
        it is. Several saves of one job in a batch must be successive versions; they are applied together or
        not at all.
        """
        ...

    async def succeed_jobs(self, successes: Sequence[Success], now: datetime) -> dict[UUID, SucceededJob]:
        """End the jobs whose current attempt this is and that are queued, running or retrying.

        The store then holds the same as after a save of the judge's decision. Returns the jobs that ended;
        the others are unchanged. Each job stands in a batch once.
        """
        ...

    async def claim_due(
        self, states: Collection[JobState], now: datetime, until: datetime, limit: int
    ) -> list[JobRow]:
        """Claim jobs in these states with `wake_at <= now`, oldest first, by moving it to `until`.

        No two callers get the same row; the claim of a caller that dies ends at `until`.
        """
        ...

    async def claim_deadlines(self, now: datetime, until: datetime, limit: int) -> list[JobRow]:
        """Claim jobs that are not over with `deadline_at <= now`, the earliest first, in the same way.

        The claim is stored beside `wake_at`, which does not move: a deadline may pass long before a job is
        due.
        """
        ...

    async def release_held_jobs(
        self, job_types: Collection[str], now: datetime, beyond: datetime, limit: int
    ) -> int:
        """Make waiting and retrying jobs of these types that are due, and were put off until after `beyond`,
        due again now; at most `limit`, the first due first. Returns how many."""
        ...

    async def add_watchers(self, watchers: Sequence[tuple[UUID, str]]) -> set[UUID]:
        """Add reply addresses to jobs that are not over; at most 8 a job, the oldest are dropped.

        Returns the ids of those jobs. The others are over or unknown: the caller must reply to their
        watchers.
        """
        ...

    async def list_jobs(self, which: JobFilter) -> list[JobRow]:
        """Jobs, the last accepted first; of those accepted at one moment, the greatest id first.

        For the next page pass the id of the last job of this one as `before`: the list continues right after
        that job, whatever was accepted since. Raises UnknownJob if the store has no job by that id.
        """
        ...

    async def find_jobs(self, text: str, limit: int) -> list[JobRow]:
        """The jobs that a text names, the last accepted first: by the beginning or the end of the id (eight
        characters or more), by the id that the requester chose, or by the idempotency key. Goes by indexes
        alone."""
        ...

    async def attempts_of(self, job_ids: Collection[UUID]) -> list[AttemptRow]:
        """The attempts of these jobs that are over, by job and number."""
        ...

    async def count_jobs(self) -> list[StateCount]:
        """The number of jobs of each type in each queue and state, counted as jobs change."""
        ...


class QueuedJobs(Protocol):
    """Queued jobs by dispatch queue, in the order of their dispatch.

    `dispatched_at` of a queued job is when its dispatch was published. It is None while the broker does not
    have the dispatch, or may not have it; the job is then published again under the same attempt number. The
    supervisor compares the others with the messages in the queue (`warrener_supervisor.redispatch`).

    Every operation goes by an index of queued jobs, and reads at most `limit` of them.
    """

    async def queue_heads(self) -> list[QueueHead]:
        """Every queue that has queued jobs, by name."""
        ...

    async def queued_groups(self, queue: str, settled: datetime, limit: int) -> list[QueuedGroup]:
        """Count the published queued jobs of `queue`, the first dispatched first, at most `limit` of them;
        `settled` are those dispatched until then."""
        ...

    async def oldest_queued(self, queue: str, until: datetime, limit: int) -> list[QueuedJob]:
        """The published queued jobs of `queue` that were dispatched until then, the first dispatched
        first."""
        ...

    async def unpublished_jobs(
        self, queue: str, until: datetime, limit: int, *, after: UUID = FIRST_ID
    ) -> list[JobRow]:
        """Queued jobs of `queue` whose dispatch is not published and that are unchanged since `until`, in the
        order of their ids; those with an id greater than `after`."""
        ...

    async def mark_unpublished(self, attempts: Sequence[tuple[UUID, int]], now: datetime) -> None:
        """Record that the broker did not take these dispatches: `dispatched_at` becomes None if the job is
        queued or retrying with this attempt."""
        ...


class RunningAttempts(Protocol):
    """Attempts that run, and when their agents were last seen.

    A running job has no lease of its own that is renewed. It is lost when two things are old: its own last
    event (`lease_until`) and the last heartbeat of its agent (`last_seen_at`). So a heartbeat costs one row
    an agent, and not one a job.
    """

    async def running_owners(self) -> dict[str, datetime | None]:
        """The agents that own running jobs, and when each was last seen; None: no heartbeat of it was ever
        stored. Costs by agents, not by jobs."""
        ...

    async def running_attempts(
        self, *, owners: Collection[str] = (), job_ids: Collection[UUID] = ()
    ) -> dict[UUID, RunningAttemptRow]:
        """All attempts that these agents run, and the running attempts of these jobs."""
        ...

    async def lost_attempts(self, agent_id: str, limit: int) -> list[AttemptRow]:
        """The attempts that were lost with this agent, the last lost first."""
        ...

    async def claim_lost(self, job_ids: Collection[UUID], now: datetime, until: datetime) -> list[JobRow]:
        """Claim those of these jobs that run with `lease_until <= now` by moving it to `until`.

        No two callers get the same job; the claim of a caller that dies ends at `until`.
        """
        ...


class CancelledTrees(Protocol):
    """Marks of jobs that were cancelled with all their child jobs.

    The writer of a child job reads its parent's mark afterwards, and the writer of a mark reads the children
    afterwards: whichever is first, one of the two sees the other.
    """

    async def mark_cancelled(self, trees: Sequence[CancelledTree]) -> list[ChildJob]:
        """Mark these, then return all their child jobs, in no order.

        A mark that exists stays as it is. The jobs must exist.
        """
        ...

    async def cancelled_among(self, job_ids: Collection[UUID]) -> dict[UUID, CancelledTree]:
        """The marks of these jobs."""
        ...


class JobCheckpoints(Protocol):
    """The newest checkpoint of each job."""

    async def keep_checkpoints(self, checkpoints: Sequence[CheckpointRow]) -> None:
        """Store these; one with a smaller or equal number does not replace the stored one."""
        ...

    async def checkpoints_of(self, job_ids: Collection[UUID]) -> dict[UUID, CheckpointRow]:
        """The newest checkpoint of each of these jobs that has one."""
        ...
