"""Presence of agents and services: announcements, heartbeats, and alarms about those that fall silent."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from warrener_contracts import fields
from warrener_contracts.events.data import EventData
from warrener_contracts.events.envelope import AGENT, ANYONE, ONE_AGENT, SCHEDULER, SUPERVISOR, Event, Route
from warrener_contracts.events.schedule_definition import SchedulePutData
from warrener_contracts.policy import Guarantee, JobPolicy
from warrener_contracts.topology import EVENTS, HEARTBEATS, REQUESTS, STATUS


class JobTypeDeclaration(EventData, frozen=True):
    """A job type that an agent can run."""

    name: fields.DeclaredJobType
    queue: fields.QueueName = "default"
    arguments_schema: fields.JsonSafeObject = Field(
        description="JSON Schema; a request with other arguments is rejected."
    )
    result_schema: fields.JsonSafeObject | None = Field(
        default=None, description="JSON Schema of the result."
    )
    guarantee: Guarantee = Guarantee.IDEMPOTENT
    policy: JobPolicy = JobPolicy()
    description: fields.Sentence = ""


class ScheduleDeclaration(EventData, frozen=True):
    """A schedule that is declared in the code of an agent."""

    schedule: SchedulePutData
    revision: int = Field(
        default=0, ge=0, description="A new number makes an unchanged declaration count as new."
    )


class AgentAnnouncedData(EventData, frozen=True):
    """An agent has started and can run these job types."""

    agent_id: fields.AgentId
    queues: tuple[fields.QueueName, ...]
    job_types: tuple[JobTypeDeclaration, ...]
    schedules: tuple[ScheduleDeclaration, ...] = Field(
        default=(), exclude_if=fields.is_unset, description="Each is adopted once, when it is new."
    )
    code_version: fields.Sentence | None = fields.optional_field("Version of the code of its handlers.")
    queue: fields.QueueName | None = fields.optional_field(
        "The one queue that this announcement is about: each job type has it, or a retry rule for it."
    )
    started_at: fields.Timestamp | None = fields.optional_field(
        "When the agent started: of one user's agents the one that started last declares a job type."
    )

    @property
    def foreign_types(self) -> list[str]:
        """The job types that belong to another queue than that of the announcement."""
        if self.queue is None:
            return []
        return [
            one.name
            for one in self.job_types
            if one.queue != self.queue and self.queue not in one.policy.rule_queues
        ]


class AgentAnnounced(
    Event[AgentAnnouncedData],
    frozen=True,
    route=Route(REQUESTS, "{event}", (AGENT,), (SCHEDULER,)),
    also=(
        Route(
            REQUESTS,
            "agent.announced.{queue}",
            (AGENT,),
            (SCHEDULER,),
            "The same about one queue, from an agent whose user may not announce all: a topic permission"
            " names the queue.",
        ),
    ),
):
    """Sent before the agent receives its first attempt, and again when its declarations change."""

    type: Literal["agent.announced.v1"] = "agent.announced.v1"


class HeartbeatAttempt(EventData, frozen=True):
    """An attempt that an agent runs."""

    job_id: UUID
    attempt: fields.AttemptNumber
    held: bool = Field(
        default=False,
        exclude_if=fields.is_unset,
        description="True if its handler waits for `agent.attempts_checked`: the job may have ended before"
        " this agent received commands.",
    )


class AgentHeartbeatData(EventData, frozen=True):
    """This agent receives work; it renews the leases of what it runs."""

    agent_id: fields.AgentId
    host: fields.Sentence
    pid: int = Field(ge=0)
    queues: tuple[fields.QueueName, ...]
    slots: int = Field(ge=0)
    running: tuple[HeartbeatAttempt, ...] = ()
    started_at: fields.Timestamp
    draining: bool = False
    # For `warrener explain`; agents of earlier versions leave them out, and readers take that for unknown.
    job_types: tuple[fields.JobType, ...] | None = fields.optional_field(
        "Job types that it knows; left out beyond 500."
    )
    free_slots: dict[fields.QueueName, Annotated[int, Field(ge=0)]] | None = fields.optional_field(
        "Free slots of each queue."
    )
    trouble: fields.Sentence | None = fields.optional_field(
        "Why it cannot handle the messages of its queues now, such as an error of its ledger."
    )
    code_version: fields.Sentence | None = fields.optional_field(
        "Version of the code of its handlers; left out if unknown."
    )


class AgentHeartbeat(
    Event[AgentHeartbeatData],
    frozen=True,
    route=Route(HEARTBEATS, "agent.{agent_id}", (AGENT,), (SUPERVISOR,), persistent=False),
    also=(
        Route(
            STATUS,
            "agent.heartbeat.{agent_id}",
            (AGENT,),
            (SUPERVISOR,),
            "The same while the exchange of heartbeats is missing, or refuses this agent; one supervisor"
            " receives it and stores it for all.",
            persistent=False,
        ),
    ),
):
    """Presence; renews the leases of the attempts that the agent runs. Every supervisor receives every one.

    Agents send it over the path that receives work, so an agent whose consumer has stalled falls silent.
    """

    type: Literal["agent.heartbeat.v1"] = "agent.heartbeat.v1"


class AgentHeartbeatRequestedData(EventData, frozen=True):
    """A supervisor has received no heartbeat of this agent for most of a lease."""

    agent_id: fields.AgentId


class AgentHeartbeatRequested(Event[AgentHeartbeatRequestedData], frozen=True, route=ONE_AGENT):
    """Requests a heartbeat at once from an agent that would otherwise count as lost."""

    type: Literal["agent.heartbeat_requested.v1"] = "agent.heartbeat_requested.v1"


class AttemptsCheckedData(EventData, frozen=True):
    """Of the attempts that the agent holds back, those whose jobs go on, and the jobs that have ended."""

    agent_id: fields.AgentId
    may_start: tuple[HeartbeatAttempt, ...] = ()
    ended: tuple[UUID, ...] = ()


class AttemptsChecked(Event[AttemptsCheckedData], frozen=True, route=ONE_AGENT):
    """Answers a heartbeat that lists attempts as held. Without an answer they start after some seconds."""

    type: Literal["agent.attempts_checked.v1"] = "agent.attempts_checked.v1"


class AgentLostData(EventData, frozen=True):
    """An agent has fallen silent without a goodbye. Its attempts go to other agents."""

    agent_id: fields.AgentId
    host: fields.Sentence
    pid: int = Field(ge=0)
    queues: tuple[fields.QueueName, ...]
    running: int = Field(ge=0, description="Number of attempts in its last heartbeat.")
    last_seen_at: fields.Timestamp


class AgentLost(
    Event[AgentLostData], frozen=True, route=Route(EVENTS, "{event}.{agent_id}", (SUPERVISOR,), (ANYONE,))
):
    """An agent has fallen silent. Every supervisor that notices it sends the same id."""

    type: Literal["agent.lost.v1"] = "agent.lost.v1"


class ServiceUnresponsiveData(EventData, frozen=True):
    """Messages wait in a queue that its service does not consume."""

    service: Literal["scheduler", "agent"] = Field(description="The service that should consume the queue.")
    queue: fields.Sentence = Field(description="Its name in the broker.")
    waiting: int = Field(ge=0, description="Number of ready messages.")
    since: fields.Timestamp = Field(description="When it was first seen.")


class ServiceUnresponsive(
    Event[ServiceUnresponsiveData],
    frozen=True,
    route=Route(EVENTS, "{event}.{service}", (SUPERVISOR,), (ANYONE,)),
):
    """Messages wait in a queue that nobody consumes; sent once per occurrence by each supervisor."""

    type: Literal["service.unresponsive.v1"] = "service.unresponsive.v1"
