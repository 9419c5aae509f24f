"""Commands of people about dead letters and parked messages.

A redrive of many dead letters is a redrive that the scheduler carries out. The redrive's id is that of the
event, so a repeat of the event is the same redrive.
"""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from warrener_contracts.events.commands import CommandData
from warrener_contracts.events.data import EventData
from warrener_contracts.events.envelope import SCHEDULER_COMMAND, SUPERVISOR_COMMAND, Event
from warrener_contracts.fields import JobType, JsonSafeObject, QueueName, Sentence, Timestamp
from warrener_contracts.policy import PolicyOverrides

Fingerprint = Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
"""Names the cause of a death: the same cause has the same fingerprint."""


class DeadLetterSelection(EventData, frozen=True):
    """Selects open dead letters that meet all of these conditions."""

    job_ids: tuple[UUID, ...] = Field(default=(), max_length=1000, description="Empty: any.")
    fingerprint: Fingerprint | None = None
    job_type: JobType | None = None
    died_after: Timestamp | None = None
    died_before: Timestamp | None = None


class JobRedriveRequestedData(CommandData, frozen=True):
    """Request dead jobs again: first a canary of them, then the others at a rate. The redrive stops by itself
    if the cause of their death returns."""

    selection: DeadLetterSelection
    limit: int | None = Field(default=None, ge=1, description="Maximum number; the first to die come first.")
    edits: JsonSafeObject = Field(
        default_factory=dict, description="A JSON merge patch (RFC 7396) of each job's arguments."
    )
    queue: QueueName | None = Field(default=None, description="None: the queue of the dead job.")
    policy: PolicyOverrides | None = Field(
        default=None, description="Overrides of the policy that the job type declares now."
    )
    canary: int = Field(default=10, ge=0, le=1000, description="All of these must end before the others.")
    rate: float = Field(default=20.0, gt=0, le=1_000, description="Jobs a second, after the canary.")
    max_failures: int = Field(default=0, ge=0, description="Number that may die again before it stops.")
    even_if_succeeded: bool = Field(
        default=False, description="Includes jobs whose request has since succeeded under another id."
    )
    dry_run: bool = Field(default=False, description="Checks and counts, and requests nothing.")
    by: Sentence = Field(description="The requester; stored.")
    reason: Sentence = ""


class JobRedriveRequested(Event[JobRedriveRequestedData], frozen=True, route=SCHEDULER_COMMAND):
    """Requests dead jobs again, a canary of them first. Each is a new job with an id derived from the dead
    one's. A selection without an unresolved dead letter is refused."""

    type: Literal["job.redrive_requested.v1"] = "job.redrive_requested.v1"


class JobDropRequestedData(CommandData, frozen=True):
    """Close dead letters without a redrive. They stay readable, with the actor and the reason."""

    selection: DeadLetterSelection
    by: Sentence = Field(description="The requester; stored.")
    reason: Sentence = Field(min_length=1, description="Why; stored with each of them.")


class JobDropRequested(Event[JobDropRequestedData], frozen=True, route=SCHEDULER_COMMAND):
    """Marks dead letters as dealt with. A selection without an unresolved one is refused."""

    type: Literal["job.drop_requested.v1"] = "job.drop_requested.v1"


class RedriveChangeRequestedData(CommandData, frozen=True):
    """Stop a redrive, or resume one that was stopped by a person or by itself."""

    redrive_id: UUID
    change: Literal["stop", "resume"]
    by: Sentence = Field(description="The requester; stored.")
    reason: Sentence = ""


class RedriveChangeRequested(Event[RedriveChangeRequestedData], frozen=True, route=SCHEDULER_COMMAND):
    """Stops or resumes a redrive. Jobs it has requested already go on; a resumed redrive begins with a
    canary again."""

    type: Literal["redrive.change_requested.v1"] = "redrive.change_requested.v1"


ParkedId = Annotated[str, Field(min_length=1, max_length=1000, description="The message's id in the store.")]
ParkedIds = Annotated[tuple[ParkedId, ...], Field(min_length=1, max_length=200)]
ParkedActor = Annotated[Sentence, Field(description="The person, or the program that acts for one.")]


class ParkedRequeueRequestedData(EventData, frozen=True):
    """Requeue these parked messages; more than 200 need several events."""

    ids: ParkedIds
    by: ParkedActor


class ParkedRequeueRequested(Event[ParkedRequeueRequestedData], frozen=True, route=SUPERVISOR_COMMAND):
    """Sends parked messages to their queues again, and deletes those that the broker has confirmed. A message
    that still cannot be read is parked again."""

    type: Literal["parked.requeue_requested.v1"] = "parked.requeue_requested.v1"


class ParkedDropRequestedData(EventData, frozen=True):
    """Delete these parked messages; more than 200 need several events."""

    ids: ParkedIds
    by: ParkedActor
    reason: Sentence = "requested"


class ParkedDropRequested(Event[ParkedDropRequestedData], frozen=True, route=SUPERVISOR_COMMAND):
    """Deletes parked messages for good."""

    type: Literal["parked.drop_requested.v1"] = "parked.drop_requested.v1"
