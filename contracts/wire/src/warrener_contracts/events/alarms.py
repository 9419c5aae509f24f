"""What somebody should look at: outbound, for whoever raises alerts (exchange `warrener.events`)."""

from typing import Literal

from pydantic import Field

from warrener_contracts.events.envelope import Event, EventData
from warrener_contracts.events.fields import AgentId, QueueName, Sentence, Timestamp


class AgentLostData(EventData, frozen=True):
    """An agent has fallen silent without having said that it ends. What it ran is given to others."""

    agent_id: AgentId
    host: Sentence
    pid: int = Field(ge=0)
    queues: tuple[QueueName, ...]
    running: int = Field(ge=0, description="How many attempts its last heartbeat named.")
    last_seen_at: Timestamp


class AgentLost(Event[AgentLostData], frozen=True):
    """`agent.lost.<agent id>`; the same id from each supervisor that notices it."""

    type: Literal["agent.lost.v1"] = "agent.lost.v1"


class ServiceUnresponsiveData(EventData, frozen=True):
    """Messages wait in a queue, and none of the service that should consume it does."""

    service: Literal["scheduler", "agent"]
    queue: Sentence = Field(description="Its name in the broker.")
    waiting: int = Field(ge=0, description="How many messages are ready in it.")
    since: Timestamp = Field(description="Seen first.")


class ServiceUnresponsive(Event[ServiceUnresponsiveData], frozen=True):
    """`service.deaf.<service>`; once for each time that it happens, from each supervisor that notices it."""

    type: Literal["service.deaf.v1"] = "service.deaf.v1"
