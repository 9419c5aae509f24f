"""alert: looks whether the other services hear, and says so where they do not."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from warrener_contracts.events import AgentLost, Event, ServiceUnresponsive
from warrener_contracts.messages import Message, build_message
from warrener_runtime.bus.port import Bus, BusUnreachable, QueueStats
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_store.escalations import RaisedIncident
from warrener_store.port import StateStore
from warrener_supervisor import effects
from warrener_supervisor.alarms import AlarmDetector, MonitoredQueue, monitored_queues
from warrener_supervisor.escalation.incident_reporter import IncidentReporter
from warrener_supervisor.heartbeat_coverage import HeartbeatCoverage
from warrener_supervisor.timings import Timings

_log = get_logger("alert")

_LATELY = timedelta(days=1)
"""Queues of agents that were silent for longer are watched only if a job type names them."""
_NAME = 200  # characters; what an event allows the name of a case to have


class ServiceMonitor:
    """The verb that raises alarms: a line in the log, an event for whoever passes them on, and a case of the
    escalation. Each supervisor says what it notices; one that is started anew says it again."""

    def __init__(  # noqa: PLR0917 - the four of every verb, and its two neighbours
        self,
        bus: Bus,
        store: StateStore,
        clock: Clock,
        timings: Timings,
        coverage: HeartbeatCoverage,
        incidents: IncidentReporter,
    ) -> None:
        self._bus, self._store, self._clock = bus, store, clock
        self._coverage, self._incidents = coverage, incidents
        self._alarms = AlarmDetector(timings)
        self._unpublished: list[Message] = []

    async def run_once(self) -> None:
        """One look at all of them. What could not be told is told by a later one."""
        agents = await self._store.agents(self._clock.now() - _LATELY)
        types = await self._store.job_types()
        try:
            backlogs = await self._backlogs(monitored_queues(agents, {row.queue for row in types.values()}))
        except BusUnreachable:
            return  # then nobody can be told of it either
        now = self._clock.now()
        lost = self._alarms.lost(agents, now) if self._coverage.is_conclusive(self._clock.monotonic()) else []
        unresponsive = self._alarms.unresponsive(backlogs, now)
        _log_lost(lost)
        _log_unresponsive(unresponsive)
        await self._incidents.raise_cases(
            [*map(_lost_incident, lost), *map(_unresponsive_incident, unresponsive)]
        )
        news: list[Event[Any]] = [*lost, *unresponsive]
        self._unpublished += map(build_message, news)
        await effects.publish(self._bus, self._unpublished, self._clock)
        self._unpublished = []

    async def _backlogs(self, of: Iterable[MonitoredQueue]) -> Mapping[MonitoredQueue, QueueStats]:
        return {monitored: await self._bus.backlog(monitored.queue) for monitored in of}


def _lost_incident(event: AgentLost) -> RaisedIncident:
    """Agents of the same queues are one case: a machine that is gone takes many with it."""
    data = event.data
    text = (
        f"agent {data.agent_id} on {data.host} has not been heard of since {data.last_seen_at.isoformat()}; "
        f"its {data.running} attempts are given to others"
    )
    return _raised(event, data.agent_id, ",".join(sorted(data.queues)), text, data.last_seen_at)


def _unresponsive_incident(event: ServiceUnresponsive) -> RaisedIncident:
    data = event.data
    text = (
        f"{data.waiting} messages wait in {data.queue} since {data.since.isoformat()}, and nobody consumes "
        f"them: look at the {data.service}"
    )
    return _raised(event, data.queue, data.queue, text, data.since)


def _raised(event: Event[Any], subject: str, of: str, text: str, since: datetime) -> RaisedIncident:
    """A case for each kind of alarm `of` the same."""
    kind = event.type.rpartition(".")[0]
    return RaisedIncident(
        kind=kind,
        fingerprint=f"{kind}:{of}"[:_NAME],
        occurrence=event.id,
        subject=subject,
        job_type=None,
        sample={"text": text},
        raised_at=event.time or since,
    )


def _log_lost(lost: Iterable[AgentLost]) -> None:
    for silent in lost:
        _log.error(
            "An agent has fallen silent; its attempts are given to others.",
            action="alert.agent_lost",
            agent_id=silent.data.agent_id,
            host=silent.data.host,
            last_seen_at=silent.data.last_seen_at.isoformat(),
        )


def _log_unresponsive(unresponsive: Iterable[ServiceUnresponsive]) -> None:
    for stalled in unresponsive:
        _log.error(
            "Messages wait in a queue that nobody consumes. Look at the service that should.",
            action="alert.service_deaf",
            service=stalled.data.service,
            queue=stalled.data.queue,
            waiting=stalled.data.waiting,
        )
