"""What the services tell the world: answers to an asker, and outbound events for anyone to bind a queue to
(exchange `warrener.events`)."""

from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from warrener_contracts.events.envelope import Event, EventData, Instant, JobType
from warrener_contracts.events.status import ErrorInfo
from warrener_contracts.states import JobState


class Reason(StrEnum):
    """Why a message was rejected or parked."""

    NOT_JSON = "not_json"
    NOT_AN_EVENT = "not_an_event"
    MISSING_ID = "missing_id"
    UNKNOWN_EVENT = "unknown_event"
    UNKNOWN_VERSION = "unknown_version"
    BAD_FIELDS = "bad_fields"
    TOO_LARGE = "too_large"
    UNKNOWN_JOB_TYPE = "unknown_job_type"
    BAD_ARGUMENTS = "bad_arguments"
    UNKNOWN_JOB = "unknown_job"
    CONFLICTING_REPEAT = "conflicting_repeat"  # the id of an earlier request, but another content
    WRONG_DOOR = "wrong_door"  # a known event in a queue that is not for it
    IMPOSSIBLE = "impossible"  # the journey says that it cannot happen: alarm
    UNROUTABLE = "unroutable"
    DELIVERY_LIMIT = "delivery_limit"  # the broker gave it up after too many deliveries


class JobRejectedData(EventData):
    """A request that was not accepted, and why. No job exists by this id unless it existed before."""

    request_id: str
    request_source: str
    job_id: UUID | None = None
    job_type: str | None = None
    reason: Reason
    detail: str


class JobRejected(Event[JobRejectedData]):
    """Goes to the asker's reply address, if there is one, and to `job.rejected.<job type>`."""

    type: Literal["job.rejected.v1"] = "job.rejected.v1"


class JobDeduplicatedData(EventData):
    """The idempotency key was used before: `job_id` is the job that stands for this request."""

    requested_job_id: UUID
    job_id: UUID
    idempotency_key: str


class JobDeduplicated(Event[JobDeduplicatedData]):
    """Goes to the asker alone."""

    type: Literal["job.deduplicated.v1"] = "job.deduplicated.v1"


class JobFinishedData(EventData):
    """A job has reached a terminal state, which it never leaves."""

    job_id: UUID
    job_type: JobType
    state: JobState
    attempt: int
    result: Any = None
    error: ErrorInfo | None = None
    parent_id: UUID | None = None
    requested_at: Instant
    finished_at: Instant


class JobFinished(Event[JobFinishedData]):
    """`job.finished.<state>.<job type>`, and to the reply addresses of its askers."""

    type: Literal["job.finished.v1"] = "job.finished.v1"


class JobRetryingData(EventData):
    """An attempt went wrong; the next one is due at `due_at`."""

    job_id: UUID
    job_type: JobType
    next_attempt: int
    due_at: Instant
    error: ErrorInfo


class JobRetrying(Event[JobRetryingData]):
    """`job.retrying.<job type>`."""

    type: Literal["job.retrying.v1"] = "job.retrying.v1"


class JobDeadData(EventData):
    """A job has used up its attempts, or met an error that no retry can mend; a dead letter keeps it."""

    job_id: UUID
    job_type: JobType
    attempts: int
    reason: str
    error: ErrorInfo | None = None


class JobDead(Event[JobDeadData]):
    """`job.dead.<job type>`; beside the `job.finished` of the same job."""

    type: Literal["job.dead.v1"] = "job.dead.v1"
