"""presence: which agents live and what they run. One heartbeat renews all leases of its agent."""

from collections.abc import Iterable
from datetime import datetime

from warrener_contracts.codec import Unreadable, decode
from warrener_contracts.events import AgentHeartbeat, Reason
from warrener_contracts.letters import Letter
from warrener_contracts.topology import HEARTBEATS_QUEUE
from warrener_runtime.bus.port import Bus, Delivery, Subscription
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import TraceContext
from warrener_store.port import StateStore
from warrener_store.rows import AgentRow, JobRow
from warrener_supervisor import act
from warrener_supervisor.fold import Case, fold
from warrener_supervisor.listing import Listed, listed
from warrener_supervisor.moment import Moment
from warrener_supervisor.parking import parked_bytes, parked_event
from warrener_supervisor.rules import Rules
from warrener_supervisor.tidings import cancel_letter

_log = get_logger("presence")


_SLOW = 1.0
"""Seconds that noting one batch of heartbeats may take."""


class Presence:
    """The verb that hears the heartbeats. All it does is repeated by the next one, should it fail."""

    def __init__(self, bus: Bus, store: StateStore, clock: Clock, rules: Rules) -> None:
        self._bus = bus
        self._store = store
        self._clock = clock
        self._rules = rules
        self._busy_since: float | None = None

    @property
    def keeps_up(self) -> bool:
        """Whether what is heard is noted at once. While the store is slow or away, leases run out unheard."""
        return self._busy_since is None or self._clock.monotonic() - self._busy_since < _SLOW

    async def handle(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Note the agents of one batch and renew what they run."""
        if self._busy_since is None:  # else it is tried again
            self._busy_since = self._clock.monotonic()
        await self._note(subscription, deliveries)
        self._busy_since = None

    async def _note(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        beats, letters = _read(deliveries)
        now = self._clock.now()
        await self._store.put_agents([_agent(beat, now) for beat in beats])
        letters += await self._renew(beats, now)
        await act.publish(self._bus, letters, self._clock)
        await subscription.ack(deliveries)

    async def _renew(self, beats: Iterable[AgentHeartbeat], now: datetime) -> list[Letter]:
        lines = [(line, beat.data.agent_id) for beat in beats for line in beat.data.running]
        rows = await self._store.jobs_by_id({line.job_id for line, _ in lines}) if lines else {}
        found = [
            (rows[line.job_id], listed(rows[line.job_id], line, agent_id, now, self._rules))
            for line, agent_id in lines
            if line.job_id in rows
        ]
        if leases := [each.lease for _, each in found if each.lease is not None]:
            await self._store.renew_leases(leases)
        await self._begin(found, now)
        return [
            cancel_letter(row, now, TraceContext(row.traceparent, row.tracestate))
            for row, each in found
            if each.unwanted
        ]

    async def _begin(self, found: Iterable[tuple[JobRow, Listed]], now: datetime) -> None:
        """Signs of life of what nobody has announced yet. Of two agents the first counts; a save that comes
        too late is made up for by the next heartbeat."""
        begun = {
            row.job_id: (row, each.begun) for row, each in reversed(list(found)) if each.begun is not None
        }
        judged = [fold(row, [Case(event, 0.0)], Moment(now, self._rules)) for row, event in begun.values()]
        await act.save(self._store, judged)


def _read(deliveries: Iterable[Delivery]) -> tuple[list[AgentHeartbeat], list[Letter]]:
    """The newest heartbeat of each agent, and what is to be parked."""
    beats: dict[str, AgentHeartbeat] = {}
    parked: list[Letter] = []
    for delivery in deliveries:
        for found in decode(delivery.body, delivery.content_type):
            if isinstance(found, Unreadable):
                parked.append(parked_bytes(found, HEARTBEATS_QUEUE.name))
            elif isinstance(found.event, AgentHeartbeat):
                beats[found.event.data.agent_id] = found.event
            else:
                detail = "expected heartbeats here"
                parked.append(parked_event(found, HEARTBEATS_QUEUE.name, Reason.WRONG_DOOR, detail))
    if parked:
        _log.error(
            "Messages that are no heartbeats are parked.", action="presence.parked", messages=len(parked)
        )
    return list(beats.values()), parked


def _agent(beat: AgentHeartbeat, now: datetime) -> AgentRow:
    data = beat.data
    return AgentRow(
        agent_id=data.agent_id,
        host=data.host,
        pid=data.pid,
        queues=tuple(data.queues),
        slots=data.slots,
        running=len(data.running),
        draining=data.draining,
        started_at=data.started_at,
        last_seen_at=now,
    )
