"""Jobs: outbound events about their progress and end, also sent as replies."""

from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from warrener_contracts.events.data import EventData
from warrener_contracts.events.envelope import ANYONE, JOB_EVENT, REPLIES, SUPERVISOR, Event, Route
from warrener_contracts.events.errors import ErrorInfo
from warrener_contracts.fields import AttemptNumber, JobType, QueueName, Sentence, Timestamp, optional_field
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import EVENTS, STATUS


class JobFinishedData(EventData, frozen=True):
    """A job has reached a terminal state, which it never leaves."""

    job_id: UUID
    job_type: JobType
    state: JobState = Field(description="The terminal state.")
    attempt: int = Field(ge=0, description="The last attempt; 0: none was dispatched.")
    result: Any = Field(default=None, description="Any JSON value; of a job that succeeded.")
    error: ErrorInfo | None = None
    parent_id: UUID | None = None
    requested_at: Timestamp
    finished_at: Timestamp
    reason: Sentence | None = optional_field("Why a cancelled job was cancelled.")
    request_id: str | None = optional_field("The id of the request that made the job.")
    request_source: str | None = optional_field("The source of that request; both are in replies.")

    def without_values(self) -> "JobFinishedData":
        """The end as everybody may read it: no result, no text of an error, and no request."""
        hidden = {"result": None, "error": self.error and self.error.without_text()}
        return self.model_copy(update={**hidden, "request_id": None, "request_source": None})


class JobFinished(
    Event[JobFinishedData],
    frozen=True,
    route=Route(EVENTS, "{event}.{state}.{job_type}", (SUPERVISOR,), (ANYONE,)),
    also=(REPLIES,),
):
    """A job has ended; also sent to the reply addresses of its requesters.

    Replies have the result, the text of the error and the request; so has the event of a public job type."""

    type: Literal["job.finished.v1"] = "job.finished.v1"


class JobRetryingData(EventData, frozen=True):
    """An attempt has failed; the next one is due at `due_at`."""

    job_id: UUID
    job_type: JobType
    next_attempt: AttemptNumber
    due_at: Timestamp
    error: ErrorInfo


class JobRetrying(Event[JobRetryingData], frozen=True, route=JOB_EVENT):
    """An attempt has failed and another will follow."""

    type: Literal["job.retrying.v1"] = "job.retrying.v1"


class JobWaitingData(EventData, frozen=True):
    """A job waits longer than usual: its dispatch queue takes no messages. It runs once the queue does."""

    job_id: UUID
    job_type: JobType
    attempt: AttemptNumber = Field(description="The attempt that waits.")
    queue: QueueName
    reason: Sentence = Field(description="Why it waits.")
    since: Timestamp = Field(description="When the queue first refused; not later than this event.")


class JobWaiting(Event[JobWaitingData], frozen=True, route=JOB_EVENT, also=(REPLIES,)):
    """A job waits because its dispatch queue takes no messages; once per attempt, also to the reply addresses
    of its requesters."""

    type: Literal["job.waiting.v1"] = "job.waiting.v1"


class JobDeadData(EventData, frozen=True):
    """A job has used up its attempts, or met an error that no retry can mend; a dead letter keeps it."""

    job_id: UUID
    job_type: JobType
    attempts: int = Field(ge=0)
    reason: Sentence
    error: ErrorInfo | None = None


class JobDead(Event[JobDeadData], frozen=True, route=JOB_EVENT):
    """A job has become a dead letter; sent beside the `job.finished` of the same job."""

    type: Literal["job.dead.v1"] = "job.dead.v1"


class JobDeadlinePassedData(EventData, frozen=True):
    """The watchdog reports that a job's deadline has passed before its end."""

    job_id: UUID
    deadline: Timestamp


class JobDeadlinePassed(
    Event[JobDeadlinePassedData], frozen=True, route=Route(STATUS, "{event}", (SUPERVISOR,), (SUPERVISOR,))
):
    """The watchdog reports that a job's deadline has passed."""

    type: Literal["job.deadline_passed.v1"] = "job.deadline_passed.v1"
