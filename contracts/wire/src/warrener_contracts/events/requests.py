"""What anyone may ask of the scheduler, and what an agent announces to it (exchange `warrener.requests`)."""

from typing import Literal
from uuid import UUID

from pydantic import Field

from warrener_contracts.events.envelope import Event, EventData
from warrener_contracts.events.fields import (
    AgentId,
    DeclaredJobType,
    JobType,
    JsonSafeObject,
    QueueName,
    ReplyAddress,
    Sentence,
    Timestamp,
)
from warrener_contracts.events.schedules import SchedulePutData
from warrener_contracts.omit_defaults import is_unset
from warrener_contracts.policy import Duration, Guarantee, JobPolicy, PolicyOverrides


class JobRequestedData(EventData, frozen=True):
    """One job, please. The event's `id` makes it: a repeat with the same id asks for the same job."""

    job_type: JobType
    arguments: JsonSafeObject = Field(default_factory=dict)
    queue: QueueName | None = Field(default=None, description="None: the queue that the job type declares.")
    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="A second request with this key makes no second job.",
    )
    not_before: Timestamp | None = Field(default=None, description="Not dispatched before then.")
    delay: Duration | None = Field(
        default=None, description="Counted from acceptance; with not_before too, the later of both counts."
    )
    deadline: Timestamp | None = Field(default=None, description="Not finished by then: expired.")
    expires_after: Duration | None = Field(
        default=None, description="Counted from acceptance; with deadline too, the earlier of both counts."
    )
    parent_id: UUID | None = Field(default=None, description="The job whose handler asked for this one.")
    reply_to: ReplyAddress | None = Field(
        default=None,
        description="Answers go to exchange warrener.events with the routing key reply.<reply_to>.",
    )
    policy: PolicyOverrides | None = Field(default=None, description="What this job chooses for itself.")


class JobRequested(Event[JobRequestedData], frozen=True):
    """The only door by which a job enters."""

    type: Literal["job.requested.v1"] = "job.requested.v1"


class JobCancelRequestedData(EventData, frozen=True):
    """Stop this job; what is cancelled never succeeds later."""

    job_id: UUID
    reason: Sentence = "asked for"
    reply_to: ReplyAddress | None = None
    tree: bool = Field(
        default=False,
        exclude_if=is_unset,
        description="The job with its follow-ups and theirs; those yet to come are cancelled as they come.",
    )


class JobCancelRequested(Event[JobCancelRequestedData], frozen=True):
    """Applied by the supervisor's rules, whatever state the job is in."""

    type: Literal["job.cancel_requested.v1"] = "job.cancel_requested.v1"


class JobTypeDeclaration(EventData, frozen=True):
    """What an agent knows how to run."""

    name: DeclaredJobType
    queue: QueueName = "default"
    arguments_schema: JsonSafeObject = Field(
        description="JSON Schema; a request with other arguments is rejected."
    )
    result_schema: JsonSafeObject | None = Field(default=None, description="JSON Schema of the result.")
    guarantee: Guarantee = Guarantee.IDEMPOTENT
    policy: JobPolicy = JobPolicy()
    description: Sentence = ""


class ScheduleDeclaration(EventData, frozen=True):
    """A schedule that stands in the code of an agent."""

    schedule: SchedulePutData
    edition: int = Field(
        default=0, ge=0, description="Another number makes a declaration of before a new one."
    )


class AgentAnnouncedData(EventData, frozen=True):
    """An agent has started and can run these job types."""

    agent_id: AgentId
    queues: tuple[QueueName, ...]
    job_types: tuple[JobTypeDeclaration, ...]
    schedules: tuple[ScheduleDeclaration, ...] = Field(
        default=(), exclude_if=is_unset, description="Each is taken up once, when it is new."
    )


class AgentAnnounced(Event[AgentAnnouncedData], frozen=True):
    """Sent before the agent receives its first attempt, and again when its declarations change."""

    type: Literal["agent.announced.v1"] = "agent.announced.v1"
