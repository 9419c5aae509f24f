"""What anyone may ask of the scheduler, and what an agent announces to it (exchange `warrener.requests`)."""

from typing import Literal
from uuid import UUID

from pydantic import Field

from warrener_contracts.events.envelope import (
    AgentId,
    Event,
    EventData,
    Instant,
    JobType,
    JsonObject,
    QueueName,
)
from warrener_contracts.policy import Duration, Guarantee, JobPolicy, PolicyOverrides


class JobRequestedData(EventData):
    """One job, please. The event's `id` makes it: a repeat with the same id asks for the same job."""

    job_type: JobType
    arguments: JsonObject = Field(default_factory=dict)
    queue: QueueName | None = None  # None: the queue that the job type declares
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=200)
    not_before: Instant | None = None
    delay: Duration | None = None  # from acceptance; an alternative to not_before
    deadline: Instant | None = None  # not finished by then: expired
    expires_after: Duration | None = None  # deadline counted from acceptance
    parent_id: UUID | None = None  # the job whose handler asked for this one
    reply_to: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{1,80}$")
    policy: PolicyOverrides | None = None


class JobRequested(Event[JobRequestedData]):
    """The only door by which a job enters."""

    type: Literal["job.requested.v1"] = "job.requested.v1"


class JobCancelRequestedData(EventData):
    """Stop this job; what is cancelled never succeeds later."""

    job_id: UUID
    reason: str = "asked for"
    reply_to: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{1,80}$")


class JobCancelRequested(Event[JobCancelRequestedData]):
    """Applied by the supervisor's rules, whatever state the job is in."""

    type: Literal["job.cancel_requested.v1"] = "job.cancel_requested.v1"


class JobTypeDeclaration(EventData):
    """What an agent knows how to run."""

    name: JobType
    queue: QueueName = "default"
    arguments_schema: JsonObject
    result_schema: JsonObject | None = None
    guarantee: Guarantee = Guarantee.IDEMPOTENT
    policy: JobPolicy = JobPolicy()
    description: str = ""


class AgentAnnouncedData(EventData):
    """An agent has started and can run these job types."""

    agent_id: AgentId
    queues: tuple[QueueName, ...]
    job_types: tuple[JobTypeDeclaration, ...]


class AgentAnnounced(Event[AgentAnnouncedData]):
    """Sent before the agent receives its first attempt, and again when its declarations change."""

    type: Literal["agent.announced.v1"] = "agent.announced.v1"
