"""Parts of jobs that single questions and changes need. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from warrener_contracts.policy import JobPolicy
from warrener_contracts.state_machine import JobState


class Success(NamedTuple):
    """A success that an attempt has reported.

    It counts if it is of the current attempt of a job that is in flight, whatever else is known of that job.
    So it is written on that condition, and the job is not read before."""

    job_id: UUID
    attempt: int
    agent_id: str
    result: Any
    started_at: datetime
    finished_at: datetime
    job_type: str | None = None
    """If it is given, the success counts only for a job of this type that no other agent runs."""


class SucceededJob(NamedTuple):
    """A job that a success has ended; the fields are those of its JobRow that notifications need.

    `gates`: those of which it may hold slots. `waited_since` is when its row last changed, if the job is
    traced and was not known to run; `was_due_at` is the time that its attempt had to wait for, if any.
    """

    job_id: UUID
    attempt: int
    result: Any
    finished_at: datetime
    job_type: str
    policy: JobPolicy
    parent_id: UUID | None
    traceparent: str | None
    tracestate: str | None
    requested_at: datetime
    watchers: tuple[str, ...]
    gates: str | None = None
    member_of: str | None = None
    source: str = ""
    request_id: str | None = None
    waited_since: datetime | None = None
    was_due_at: datetime | None = None


DISPATCHED = (JobState.QUEUED, JobState.RETRYING)
"""States in which the broker has, or should have, a dispatch of the job."""
START_TIMEOUT_REPORTED = datetime(9999, 12, 31, tzinfo=UTC)
"""`wake_at` of a queued job that was reported for waiting longer than its start_timeout: it is reported
once."""
REFUSAL_REPORTED = datetime(9999, 12, 30, tzinfo=UTC)
"""`wake_at` of a queued job whose requesters know that its queue refuses it (`job.waiting`)."""
FIRST_ID = UUID(int=0)
"""An id before that of every job."""


class QueueHead(NamedTuple):
    """A queue that has queued jobs. `oldest`: when the first of the published ones was dispatched."""

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


class RunningAttemptRow(NamedTuple):
    """A running attempt, as supervisors compare it with a heartbeat's list. Thousands are read at a time."""

    job_id: UUID
    attempt: int
    agent_id: str
    lease_until: datetime
    cancelled: bool  # True if the job's cancellation was requested


class FailedAttempt(NamedTuple):
    """An attempt that went wrong, without the texts of its error; with its base classes if the policy has
    rules."""

    job_id: UUID
    attempt: int
    agent_id: str | None
    started_at: datetime | None
    finished_at: datetime
    cause: str  # the kind of the error
    error_type: str
    verdict: str
    base_classes: tuple[str, ...] = ()


MAX_CHILDREN = 5_000
"""Child jobs of a page."""
END_REASON = "its workflow "
"""The first words of the reason of a mark that the end of a workflow makes; no cancel of a tree has them."""


class MarkOwner(NamedTuple):
    """The sender of a cancel of an unknown job: the user of the broker, or the source if it named no user."""

    user: str | None
    source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledTree:
    """The mark of a job whose child jobs are cancelled, present and future ones.

    That of the end of a workflow cancels only the child jobs that its handler has requested, and no detached
    ones.
    """

    job_id: UUID
    reason: str  # passed on to each child job
    cancelled_at: datetime

    @property
    def is_of_end(self) -> bool:
        """True if the end of a workflow has made it, False for a cancel of the tree."""
        return self.reason.startswith(END_REASON)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildJob:
    """A child job, as a walk through its tree needs it."""

    job_id: UUID
    parent_id: UUID
    over: bool
    detached: bool = False  # it goes on when its workflow ends


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """The last state that a handler has saved, for the next attempt. `number` counts on from attempt to
    attempt."""

    job_id: UUID
    attempt: int
    number: int
    state: Any
    saved_at: datetime
