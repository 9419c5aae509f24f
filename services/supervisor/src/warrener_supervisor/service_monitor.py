"""Watch that other services consume and that agents live; raise an alarm where they do not.

An alarm is a line in the log, an event for subscribers, and an incident for the escalation.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from warrener_contracts import events
from warrener_contracts.messages import Message, build_message
from warrener_contracts.topology import REQUESTS_QUEUE, SCHEDULER_COMMANDS, TRIGGERS_QUEUE, dispatch_queue
from warrener_runtime.bus.port import BusUnreachable
from warrener_runtime.bus.types import QueueStats
from warrener_runtime.logs import get_logger
from warrener_store.agents.rows import AgentRow, declared_queues
from warrener_store.incidents.rows import RaisedIncident
from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.decisions.signals import supervisor_event
from warrener_supervisor.effects import SupervisorPorts
from warrener_supervisor.escalation.incident_reporter import IncidentReporter
from warrener_supervisor.heartbeat_consumer import HeartbeatCoverage

_log = get_logger("alert")

_LATELY = timedelta(days=1)
"""A queue whose agents were silent for longer is watched only if a job type names it."""
_OLD = timedelta(hours=1)  # an agent that was silent for longer when this supervisor started raises no alarm
_MAX_LINES = 20  # lines and incidents about the agents that one look finds lost
_NAME = 200  # characters; the limit of the event
Consumers = Literal["scheduler", "agent"]


class MonitoredQueue(NamedTuple):
    """A queue, and the service that consumes it."""

    queue: str
    service: Consumers


def monitored_queues(agents: Iterable[AgentRow], queues: Iterable[str]) -> list[MonitoredQueue]:
    """Return the queues that need a consumer: the scheduler's, and those of agents or job types."""
    served = {*queues, *(queue for agent in agents for queue in agent.queues)}
    return [
        MonitoredQueue(REQUESTS_QUEUE.name, "scheduler"),
        MonitoredQueue(TRIGGERS_QUEUE.name, "scheduler"),
        MonitoredQueue(SCHEDULER_COMMANDS.name, "scheduler"),
        *(MonitoredQueue(dispatch_queue(queue).name, "agent") for queue in sorted(served)),
    ]


def draining_queues(agents: Iterable[AgentRow], seen_since: datetime) -> set[str]:
    """Return the queues whose living agents drain: these rightly consume nothing until they end."""
    return {
        dispatch_queue(queue).name
        for agent in agents
        if agent.draining and agent.last_seen_at > seen_since
        for queue in agent.queues
    }


class ServiceMonitor:
    """Raises alarms. Each supervisor raises what it notices; after a restart it raises it again."""

    def __init__(
        self, ports: SupervisorPorts, coverage: HeartbeatCoverage, reporter: IncidentReporter
    ) -> None:
        self._ports = ports
        self._bus, self._store, self._clock, self._timings = ports
        self._coverage, self._reporter = coverage, reporter
        self._alarms = AlarmDetector(ports.timings)
        self._unpublished: list[Message] = []

    async def run_once(self) -> None:
        """Look at all services. An event that could not be published is published at a later look."""
        agents = await self._store.agents(self._clock.now() - _LATELY)
        types = await self._store.job_types()
        try:
            backlogs = {
                monitored: await self._bus.backlog(monitored.queue)
                for monitored in monitored_queues(agents, declared_queues(types))
            }
        except BusUnreachable:
            return  # no alarm can be published either
        now = self._clock.now()
        lost = self._alarms.lost(agents, now) if self._coverage.is_conclusive(self._clock.monotonic()) else []
        draining = draining_queues(agents, now - self._timings.lease)
        unresponsive = self._alarms.unresponsive(
            {each: found for each, found in backlogs.items() if each.queue not in draining}, now
        )
        for silent in lost[:_MAX_LINES]:
            _log.error(
                "An agent fell silent; its attempts are given to other agents.",
                action="alert.agent_lost",
                agent_id=silent.data.agent_id,
                host=silent.data.host,
                last_seen_at=silent.data.last_seen_at.isoformat(),
            )
        if len(lost) > _MAX_LINES:
            _log.error(
                "More agents fell silent; `warrener agents` lists them.",
                action="alert.agents_lost",
                agents=len(lost) - _MAX_LINES,
            )
        for stalled in unresponsive:
            _log.error(
                "Messages wait in a queue without a consumer. Check the service that should consume it.",
                action="alert.service_unresponsive",
                service=stalled.data.service,
                queue=stalled.data.queue,
                waiting=stalled.data.waiting,
            )
        await self._reporter.raise_incidents(
            [*lost_incidents(lost), *map(_unresponsive_incident, unresponsive)]
        )
        self._unpublished += [*map(build_message, lost), *map(build_message, unresponsive)]
        await self._ports.publish(self._unpublished)
        self._unpublished = []


class AlarmDetector:
    """Finds new alarms. An alarm that is over is forgotten, so that it is raised again if it comes back."""

    def __init__(self, timings: Timings) -> None:
        self._timings = timings
        self._lost: set[str] = set()
        self._unconsumed: dict[str, datetime] = {}
        self._unresponsive: set[str] = set()

    def lost(self, agents: Iterable[AgentRow], now: datetime) -> list[events.AgentLost]:
        """Return the agents that have fallen silent since the last call."""
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
    ) -> list[events.ServiceUnresponsive]:
        """Return the queues in which messages have waited for long without a consumer."""
        waiting = {each: found.waiting for each, found in backlogs.items() if not found.consumers}
        queues = {monitored.queue for monitored, count in waiting.items() if count}
        self._unconsumed = {queue: self._unconsumed.get(queue, now) for queue in queues}
        patience, known = self._timings.no_consumer_timeout, self._unresponsive & queues
        self._unresponsive = known | {queue for queue, at in self._unconsumed.items() if now - at >= patience}
        return [
            _unresponsive(monitored, count, self._unconsumed[monitored.queue], now)
            for monitored, count in waiting.items()
            if monitored.queue in self._unresponsive - known
        ]


def _lost(agent: AgentRow, now: datetime) -> events.AgentLost:
    data = events.AgentLostData(
        agent_id=agent.agent_id,
        host=agent.host,
        pid=agent.pid,
        queues=agent.queues,
        running=agent.running,
        last_seen_at=agent.last_seen_at,
    )
    name = f"{agent.agent_id}:lost:{agent.last_seen_at.isoformat()}"
    return supervisor_event(events.AgentLost, name, agent.agent_id, now, data)


def _unresponsive(
    monitored: MonitoredQueue, waiting: int, since: datetime, now: datetime
) -> events.ServiceUnresponsive:
    queue = monitored.queue
    data = events.ServiceUnresponsiveData(
        service=monitored.service, queue=queue, waiting=waiting, since=since
    )
    name = f"{queue}:unresponsive:{since.isoformat()}"
    return supervisor_event(events.ServiceUnresponsive, name, queue, now, data)


def _lost_incident(event: events.AgentLost) -> RaisedIncident:
    """Make the incident of a lost agent; a lost machine takes many, so agents of the same queues share it."""
    data = event.data
    text = (
        f"agent {data.agent_id} on {data.host} has sent no heartbeat since {data.last_seen_at.isoformat()}; "
        f"its {data.running} attempts are given to other agents"
    )
    return _raised(event, data.agent_id, ",".join(sorted(data.queues)), text, data.last_seen_at)


def lost_incidents(lost: Sequence[events.AgentLost]) -> list[RaisedIncident]:
    """Make the incidents of lost agents: those of one look beyond the first have one in common."""
    found, more = [_lost_incident(event) for event in lost[:_MAX_LINES]], lost[_MAX_LINES:]
    if more:
        text = f"{len(lost)} agents have fallen silent; `warrener agents` lists them"
        found.append(_raised(more[0], "many agents", "many", text, more[0].data.last_seen_at))
    return found


def _unresponsive_incident(event: events.ServiceUnresponsive) -> RaisedIncident:
    data = event.data
    text = (
        f"{data.waiting} messages wait in {data.queue} since {data.since.isoformat()}, and nobody consumes "
        f"them: look at the {data.service}"
    )
    return _raised(event, data.queue, data.queue, text, data.since)


def _raised(event: events.Event[Any], subject: str, of: str, text: str, since: datetime) -> RaisedIncident:
    """Make an incident; alarms of one kind with the same `of` share one."""
    kind = event.type.rpartition(".")[0]
    return RaisedIncident(
        kind=kind,
        fingerprint=f"{kind}:{of}"[:_NAME],
        occurrence=event.id,
        subject=subject,
        sample={"text": text},
        raised_at=event.time or since,
    )
