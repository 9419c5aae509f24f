"""What the scheduler and the supervisor hand to agents (exchange `warrener.dispatch`), and control."""

from typing import Literal
from uuid import UUID

from pydantic import Field

from warrener_contracts.events.checkpoints import Checkpoint
from warrener_contracts.events.envelope import Event, EventData
from warrener_contracts.events.fields import (
    AgentId,
    AttemptNumber,
    JobType,
    JsonObject,
    QueueName,
    Sentence,
    Timestamp,
)
from warrener_contracts.omit_defaults import is_unset
from warrener_contracts.policy import Duration, Guarantee


class AttemptDispatchedData(EventData, frozen=True):
    """Try this job. `attempt` is the fencing token: only the highest one counts."""

    job_id: UUID
    attempt: AttemptNumber
    job_type: JobType
    queue: QueueName
    arguments: JsonObject
    guarantee: Guarantee = Guarantee.IDEMPOTENT
    timeout: Duration
    max_attempts: int = Field(ge=1, le=1000)
    deadline: Timestamp | None = None
    requested_at: Timestamp
    not_before: Timestamp | None = Field(
        default=None,
        description="It waits in the delay ladder until then; an agent that gets it early puts it back.",
    )
    checkpoint: Checkpoint | None = Field(
        default=None,
        exclude_if=is_unset,
        description="What an earlier attempt has saved of its state, as far as it was heard of.",
    )


class AttemptDispatched(Event[AttemptDispatchedData], frozen=True):
    """May arrive more than once; the ledger lets one through."""

    type: Literal["attempt.dispatched.v1"] = "attempt.dispatched.v1"


class AttemptCancelData(EventData, frozen=True):
    """Stop what you run of this job, and do not start it any more."""

    job_id: UUID
    attempt: AttemptNumber | None = Field(default=None, description="None: every attempt.")
    reason: Sentence


class AgentHeartbeatRequestedData(EventData, frozen=True):
    """A supervisor has had no heartbeat of this agent for most of a lease."""

    agent_id: AgentId


class AgentHeartbeatRequested(Event[AgentHeartbeatRequestedData], frozen=True):
    """Control, to one agent: it answers with a heartbeat at once."""

    type: Literal["agent.heartbeat_requested.v1"] = "agent.heartbeat_requested.v1"


class AttemptCancel(Event[AttemptCancelData], frozen=True):
    """Control, to all agents: whoever does not run the job passes it over."""

    type: Literal["attempt.cancel.v1"] = "attempt.cancel.v1"
