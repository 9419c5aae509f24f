"""What is worth an alarm: agents that fell silent, and queues that nobody consumes. Pure, but for what it
remembers so as to say each thing once."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from warrener_contracts.events import AgentLost, AgentLostData, ServiceUnresponsive, ServiceUnresponsiveData
from warrener_contracts.topology import REQUESTS_QUEUE, TRIGGERS_QUEUE, dispatch_queue
from warrener_runtime.bus.port import QueueStats
from warrener_store.rows import AgentRow
from warrener_supervisor.source import SOURCE
from warrener_supervisor.timings import Timings

Consumers = Literal["scheduler", "agent"]

_OLD = timedelta(hours=1)
"""Who was silent for longer when this supervisor began to listen is no news."""


class MonitoredQueue(NamedTuple):
    """A queue, and which service consumes it."""

    queue: str
    service: Consumers


def monitored_queues(agents: Iterable[AgentRow], queues: Iterable[str]) -> list[MonitoredQueue]:
    """The queues that somebody should consume: requests, triggers, and those that agents serve or job types
    name."""
    served = {*queues, *(queue for agent in agents for queue in agent.queues)}
    return [
        MonitoredQueue(REQUESTS_QUEUE.name, "scheduler"),
        MonitoredQueue(TRIGGERS_QUEUE.name, "scheduler"),
        *(MonitoredQueue(dispatch_queue(queue).name, "agent") for queue in sorted(served)),
    ]


class AlarmDetector:
    """Says what is new. What was said is forgotten when it is over, so that it is said again if it comes
    again."""

    def __init__(self, timings: Timings) -> None:
        self._timings = timings
        self._lost: set[str] = set()
        self._unconsumed: dict[str, datetime] = {}
        self._unresponsive: set[str] = set()

    def lost(self, agents: Iterable[AgentRow], now: datetime) -> list[AgentLost]:
        """The agents that have fallen silent since."""
        silent = {
            agent.agent_id: agent
            for agent in agents
            if not agent.draining and self._timings.lease <= now - agent.last_seen_at < _OLD
        }
        fresh = [agent for agent_id, agent in silent.items() if agent_id not in self._lost]
        self._lost = set(silent)
        return [_lost(agent, now) for agent in fresh]

    def unresponsive(
        self, backlogs: Mapping[MonitoredQueue, QueueStats], now: datetime
    ) -> list[ServiceUnresponsive]:
        """The queues in which messages have waited for long, and nobody has consumed them."""
        waiting = {
            monitored: found.waiting
            for monitored, found in backlogs.items()
            if found.waiting and not found.consumers
        }
        queues = {monitored.queue for monitored in waiting}
        self._unconsumed = {queue: self._unconsumed.get(queue, now) for queue in queues}
        self._unresponsive &= queues
        fresh = [
            (monitored, count)
            for monitored, count in waiting.items()
            if monitored.queue not in self._unresponsive
            and now - self._unconsumed[monitored.queue] >= self._timings.no_consumer_timeout
        ]
        self._unresponsive |= {monitored.queue for monitored, _ in fresh}
        return [
            _unresponsive(monitored, count, self._unconsumed[monitored.queue], now)
            for monitored, count in fresh
        ]


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


def _unresponsive(
    monitored: MonitoredQueue, waiting: int, since: datetime, now: datetime
) -> ServiceUnresponsive:
    return ServiceUnresponsive(
        id=f"{monitored.queue}:deaf:{since.isoformat()}",
        source=SOURCE,
        time=now,
        subject=monitored.queue,
        data=ServiceUnresponsiveData(
            service=monitored.service, queue=monitored.queue, waiting=waiting, since=since
        ),
    )
