"""Requests: for jobs and their cancellation, and the replies to those that make no job."""

from enum import StrEnum
from typing import Literal
from uuid import UUID

from pydantic import Field, TypeAdapter, ValidationError

from warrener_contracts import fields
from warrener_contracts.events import workflows
from warrener_contracts.events.data import EventData
from warrener_contracts.events.envelope import AGENT, ANYONE, REPLIES, SCHEDULER, SUPERVISOR, Event, Route
from warrener_contracts.policy import PolicyOverrides
from warrener_contracts.topology import COMMANDS, EVENTS, REQUESTS, STATUS

_JOB_TYPE: TypeAdapter[str] = TypeAdapter(fields.JobType)


class MapMember(EventData, frozen=True):
    """The place of a child job in a map of its parent workflow."""

    call_id: workflows.CallId
    size: int = Field(ge=1, le=workflows.MAX_MEMBERS, description="The number of jobs of that call.")
    map_id: workflows.CallId = Field(description="Names the map among those of the workflow.")
    in_flight: int = Field(
        ge=1, le=10_000, description="The number of jobs of the map that are dispatched at once."
    )
    stops: bool = Field(
        default=False,
        exclude_if=fields.is_unset,
        description="True if the failure of one may end the map: its parent looks at each.",
    )


class MapBatch(EventData, frozen=True):
    """The child jobs of one batch of a map, whose ids derive from the parent and the call."""

    parent_id: UUID
    call_id: workflows.CallId
    size: int = Field(ge=1, le=workflows.MAX_MEMBERS)


class JobRequestedData(EventData, frozen=True):
    """Request one job. The event's `id` makes it: a repeat with the same id requests the same job."""

    job_type: fields.JobType
    arguments: fields.JsonSafeObject = Field(default_factory=dict)
    queue: fields.QueueName | None = Field(
        default=None, description="None: the queue that the job type declares."
    )
    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="A second request with this key, of the same source and job type, makes no second job; "
        "with other arguments it is rejected.",
    )
    not_before: fields.Timestamp | None = Field(default=None, description="Not dispatched before then.")
    delay: fields.Duration | None = Field(
        default=None, description="Counted from acceptance; with not_before too, the later of both counts."
    )
    deadline: fields.Timestamp | None = Field(default=None, description="Not finished by then: expired.")
    expires_after: fields.Duration | None = Field(
        default=None, description="Counted from acceptance; with deadline too, the earlier of both counts."
    )
    parent_id: UUID | None = Field(default=None, description="The job whose handler requested this one.")
    reply_to: fields.ReplyAddress | None = Field(
        default=None,
        description="Replies go to exchange warrener.events with the routing key reply.<reply_to>.",
    )
    policy: PolicyOverrides | None = Field(default=None, description="Overrides for this job.")
    member_of: MapMember | None = fields.optional_field(
        "The map of its parent that it is one of many jobs of."
    )


class JobRequested(
    Event[JobRequestedData],
    frozen=True,
    route=Route(REQUESTS, "{job_type}", (ANYONE, SCHEDULER, AGENT, SUPERVISOR), (SCHEDULER,)),
):
    """The only way to make a job. Agents request the children of their jobs, the scheduler those of schedules
    and redrives, the supervisor those of escalation policies."""

    type: Literal["job.requested.v1"] = "job.requested.v1"


class JobCancelRequestedData(EventData, frozen=True):
    """Stop this job; a cancelled job never succeeds later."""

    job_id: UUID
    reason: fields.Sentence = "requested"
    reply_to: fields.ReplyAddress | None = None
    tree: bool = Field(
        default=False,
        exclude_if=fields.is_unset,
        description="Cancels the job's children and theirs too, also those that are yet to be requested.",
    )
    members: MapBatch | None = fields.optional_field(
        "Cancels these jobs that have not ended, in place of `job_id`, which is that of no job."
    )


class JobCancelRequested(
    Event[JobCancelRequestedData],
    frozen=True,
    route=Route(COMMANDS, "{event}", (ANYONE, SCHEDULER), (SUPERVISOR,)),
    also=(
        Route(
            STATUS,
            "job.cancel_requested",
            (SCHEDULER, SUPERVISOR),
            (SUPERVISOR,),
            "Cancels behind the reports about attempts that came before them, in batches.",
        ),
    ),
):
    """Cancels a job in any state, also one whose request is yet to be accepted."""

    type: Literal["job.cancel_requested.v1"] = "job.cancel_requested.v1"


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
    CONFLICTING_REPEAT = "conflicting_repeat"  # the id, or the key, of an earlier request with other content
    WRONG_QUEUE = "wrong_queue"  # a known event in a queue that is not for it
    ROUTING_KEY_MISMATCH = "routing_key_mismatch"  # a known event under the routing key of another one
    IMPOSSIBLE = "impossible"  # the state machine rejects it: alarm
    UNROUTABLE = "unroutable"
    DELIVERY_LIMIT = "delivery_limit"  # the broker gave up after too many deliveries


class JobRejectedData(EventData, frozen=True):
    """A request was refused. No job has this id unless it existed before."""

    request_id: str = Field(description="As received; empty if unreadable.")
    request_source: str = Field(description="As received; empty if unreadable.")
    job_id: UUID | None = None
    job_type: str | None = Field(default=None, description="As received: it may not be a job type at all.")
    reason: Reason
    detail: fields.Sentence = Field(description="The expected value, the received one, and the remedy.")


class JobRejected(
    Event[JobRejectedData],
    frozen=True,
    route=Route(EVENTS, "{event}.{job_type}", (SCHEDULER,), (ANYONE,)),
    also=(REPLIES,),
):
    """A request was refused. The key says `unknown` for a job type that could not be read."""

    type: Literal["job.rejected.v1"] = "job.rejected.v1"

    @property
    def routing_key(self) -> str:
        """The key of the declared route; safe for any text that came as a job type."""
        try:
            return f"job.rejected.{_JOB_TYPE.validate_python(self.data.job_type)}"
        except ValidationError:
            return "job.rejected.unknown"


class JobDeduplicatedData(EventData, frozen=True):
    """The idempotency key was used before: `job_id` is the job that stands for this request."""

    requested_job_id: UUID
    job_id: UUID
    idempotency_key: str


class JobDeduplicated(
    Event[JobDeduplicatedData],
    frozen=True,
    route=Route(EVENTS, "{event}", (SCHEDULER,), (ANYONE,)),
    also=(REPLIES,),
):
    """The idempotency key of a request was used before, so it made no job. Sent to its requester alone."""

    type: Literal["job.deduplicated.v1"] = "job.deduplicated.v1"
