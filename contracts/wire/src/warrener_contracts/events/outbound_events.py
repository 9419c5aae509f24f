"""What the services tell the world: answers to an asker, and outbound events for anyone to bind a queue to
(exchange `warrener.events`)."""

from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from warrener_contracts.events.envelope import Event, EventData
from warrener_contracts.events.fields import AttemptNumber, JobType, QueueName, Sentence, Timestamp
from warrener_contracts.events.status import ErrorInfo
from warrener_contracts.omit_defaults import is_unset
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
    WRONG_QUEUE = "wrong_door"  # a known event in a queue that is not for it
    IMPOSSIBLE = "impossible"  # the journey says that it cannot happen: alarm
    UNROUTABLE = "unroutable"
    DELIVERY_LIMIT = "delivery_limit"  # the broker gave it up after too many deliveries


class JobRejectedData(EventData, frozen=True):
    """A request that was not accepted, and why. No job exists by this id unless it existed before."""

    request_id: str = Field(description="As it came; empty where none could be read.")
    request_source: str = Field(description="As it came; empty where none could be read.")
    job_id: UUID | None = None
    job_type: str | None = Field(default=None, description="As it came: it may not be a job type at all.")
    reason: Reason
    detail: Sentence = Field(description="What was expected, what came, what to do.")


class JobRejected(Event[JobRejectedData], frozen=True):
    """Goes to the asker's reply address, if there is one, and to `job.rejected.<job type>`."""

    type: Literal["job.rejected.v1"] = "job.rejected.v1"


class JobDeduplicatedData(EventData, frozen=True):
    """The idempotency key was used before: `job_id` is the job that stands for this request."""

    requested_job_id: UUID
    job_id: UUID
    idempotency_key: str


class JobDeduplicated(Event[JobDeduplicatedData], frozen=True):
    """Goes to the asker alone."""

    type: Literal["job.deduplicated.v1"] = "job.deduplicated.v1"


class JobFinishedData(EventData, frozen=True):
    """A job has reached a terminal state, which it never leaves."""

    job_id: UUID
    job_type: JobType
    state: JobState
    attempt: int = Field(ge=0, description="The last attempt; 0: none was dispatched.")
    result: Any = Field(default=None, description="Any JSON value; of a job that succeeded.")
    error: ErrorInfo | None = None
    parent_id: UUID | None = None
    requested_at: Timestamp
    finished_at: Timestamp
    reason: Sentence | None = Field(
        default=None, exclude_if=is_unset, description="Of a job that was cancelled: why."
    )


class JobFinished(Event[JobFinishedData], frozen=True):
    """`job.finished.<state>.<job type>`, and to the reply addresses of its askers."""

    type: Literal["job.finished.v1"] = "job.finished.v1"


class JobRetryingData(EventData, frozen=True):
    """An attempt went wrong; the next one is due at `due_at`."""

    job_id: UUID
    job_type: JobType
    next_attempt: AttemptNumber
    due_at: Timestamp
    error: ErrorInfo


class JobRetrying(Event[JobRetryingData], frozen=True):
    """`job.retrying.<job type>`."""

    type: Literal["job.retrying.v1"] = "job.retrying.v1"


class JobWaitingData(EventData, frozen=True):
    """A job waits longer than usual: its dispatch queue takes no messages. It runs once the queue does."""

    job_id: UUID
    job_type: JobType
    attempt: AttemptNumber = Field(description="The attempt that waits.")
    queue: QueueName
    reason: Sentence = Field(description="Why it waits.")
    since: Timestamp = Field(description="When the queue first refused; not later than this event.")


class JobWaiting(Event[JobWaitingData], frozen=True):
    """`job.waiting.<job type>`, and to the reply addresses of its askers; once per attempt."""

    type: Literal["job.waiting.v1"] = "job.waiting.v1"


class JobDeadData(EventData, frozen=True):
    """A job has used up its attempts, or met an error that no retry can mend; a dead letter keeps it."""

    job_id: UUID
    job_type: JobType
    attempts: int = Field(ge=0)
    reason: Sentence
    error: ErrorInfo | None = None


class JobDead(Event[JobDeadData], frozen=True):
    """`job.dead.<job type>`; beside the `job.finished` of the same job."""

    type: Literal["job.dead.v1"] = "job.dead.v1"
