"""What is worth an alarm: agents that fell silent, and queues that nobody consumes. Pure, but for what it
remembers so as to say each thing once."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from warrener_contracts.events import AgentLost, AgentLostData, ServiceUnresponsive, ServiceUnresponsiveData
from warrener_contracts.topology import REQUESTS_QUEUE, TRIGGERS_QUEUE, dispatch_queue
from warrener_runtime.bus.port import QueueStats
from warrener_store.rows import AgentRow
from warrener_supervisor.rules import Rules
from warrener_supervisor.source import SOURCE

Consumers = Literal["scheduler", "agent"]

_OLD = timedelta(hours=1)
"""Who was silent for longer when this supervisor began to listen is no news."""


class Ear(NamedTuple):
    """A queue, and which service consumes it."""

    queue: str
    service: Consumers


def ears(agents: Iterable[AgentRow], queues: Iterable[str]) -> list[Ear]:
    """The queues that somebody should consume: requests, triggers, and those that agents serve or job types
    name."""
    served = {*queues, *(queue for agent in agents for queue in agent.queues)}
    return [
        Ear(REQUESTS_QUEUE.name, "scheduler"),
        Ear(TRIGGERS_QUEUE.name, "scheduler"),
        *(Ear(dispatch_queue(queue).name, "agent") for queue in sorted(served)),
    ]


class Alarms:
    """Says what is new. What was said is forgotten when it is over, so that it is said again if it comes
    again."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._lost: set[str] = set()
        self._unconsumed: dict[str, datetime] = {}
        self._deaf: set[str] = set()

    def lost(self, agents: Iterable[AgentRow], now: datetime) -> list[AgentLost]:
        """The agents that have fallen silent since."""
        silent = {
            agent.agent_id: agent
            for agent in agents
            if not agent.draining and self._rules.lease <= now - agent.last_seen_at < _OLD
        }
        fresh = [agent for agent_id, agent in silent.items() if agent_id not in self._lost]
        self._lost = set(silent)
        return [_lost(agent, now) for agent in fresh]

    def deaf(self, backlogs: Mapping[Ear, QueueStats], now: datetime) -> list[ServiceUnresponsive]:
        """The queues in which messages have waited for long, and nobody has consumed them."""
        waiting = {
            ear: found.waiting for ear, found in backlogs.items() if found.waiting and not found.consumers
        }
        queues = {ear.queue for ear in waiting}
        self._unconsumed = {queue: self._unconsumed.get(queue, now) for queue in queues}
        self._deaf &= queues
        fresh = [
            (ear, count)
            for ear, count in waiting.items()
            if ear.queue not in self._deaf and now - self._unconsumed[ear.queue] >= self._rules.deaf
        ]
        self._deaf |= {ear.queue for ear, _ in fresh}
        return [_deaf(ear, count, self._unconsumed[ear.queue], now) for ear, count in fresh]


def _lost(agent: AgentRow, now: datetime) -> AgentLost:
    return AgentLost(
        id=f"{agent.agent_id}:lost:{agent.last_seen_at.isoformat()}",
        source=SOURCE,
        time=now,
        subject=agent.agent_id,
        data=AgentLostData(
            agent_id=agent.agent_id,
            host=agent.host,
            pid=agent.pid,
            queues=agent.queues,
            running=agent.running,
            last_seen_at=agent.last_seen_at,
        ),
    )


def _deaf(ear: Ear, waiting: int, since: datetime, now: datetime) -> ServiceUnresponsive:
    return ServiceUnresponsive(
        id=f"{ear.queue}:deaf:{since.isoformat()}",
        source=SOURCE,
        time=now,
        subject=ear.queue,
        data=ServiceUnresponsiveData(service=ear.service, queue=ear.queue, waiting=waiting, since=since),
    )
