"""What the store says about dispatch queues: the queued jobs of each, in the order of their dispatch.

`dispatched_at` of a queued job is when its dispatch was published. It is None while the broker does not have
it, or may not have it; such a job is published again under the same attempt number. The supervisor compares
the others with what the queue holds (`warrener_supervisor.redispatch`).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple, Protocol
from uuid import UUID

from warrener_contracts.policy import JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_store.rows import JobRow

DISPATCHED = (JobState.QUEUED, JobState.RETRYING)
"""States in which the broker has, or should have, a dispatch of the job."""

START_TIMEOUT_REPORTED = datetime(9999, 12, 31, tzinfo=UTC)
"""`wake_at` of a queued job that was named for waiting longer than its start_timeout: it is named once."""
REFUSAL_REPORTED = datetime(9999, 12, 30, tzinfo=UTC)
"""`wake_at` of a queued job whose requesters know that its queue refuses it (`job.waiting`)."""
FIRST_ID = UUID(int=0)
"""An id before that of every job."""


class QueueHead(NamedTuple):
    """A queue that has queued jobs. `oldest`: when the first of those was dispatched that are published."""

    queue: str
    oldest: datetime | None
    unpublished: bool


class QueuedGroup(NamedTuple):
    """Published queued jobs of one queue that may share messages. `settled`: those dispatched long enough ago
    to be in the queue for certain."""

    job_type: str
    policy: JobPolicy
    jobs: int
    settled: int


class QueuedJob(NamedTuple):
    """A queued job, by its current dispatch."""

    job_id: UUID
    dispatched_at: datetime


class QueuedJobs(Protocol):
    """Queued jobs by queue. Every operation goes by an index of what is queued, and reads at most `limit`
    jobs (`tests/conformance/test_store_queued.py`)."""

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
        """Queued jobs of `queue` whose dispatch is not published and that nobody has touched since `until`,
        in the order of their ids; those with an id beyond `after`."""
        ...

    async def mark_unpublished(self, attempts: Sequence[tuple[UUID, int]], now: datetime) -> None:
        """Note that the broker did not take these dispatches: `dispatched_at` is None where the job is queued
        or retrying with this attempt."""
        ...
