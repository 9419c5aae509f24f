"""Receive the heartbeats of all agents: store which agents live, and look up what is new in their lists.

A heartbeat costs one row of its agent; its lines cost something only where they differ from the store.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import compress
from typing import NamedTuple
from uuid import UUID

from warrener_contracts.events import AgentHeartbeat
from warrener_contracts.inbox import Inbox, ParkedEvent
from warrener_contracts.messages import Message, build_message
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import HEARTBEATS, MAX_EVENTS
from warrener_runtime.bus.port import Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import TraceContext
from warrener_store.agents.rows import AgentRow
from warrener_store.jobs.rows import JobRow, evolve
from warrener_supervisor import effects
from warrener_supervisor.agent_owners import AgentOwners
from warrener_supervisor.decisions import poison
from warrener_supervisor.decisions.context import JobTransition, JudgeContext, Timings
from warrener_supervisor.decisions.heartbeat_diff import (
    Discrepancy,
    HeartbeatLine,
    HeartbeatTracker,
    checked_event,
    classify_discrepancy,
    matches_store,
)
from warrener_supervisor.decisions.judge import JobBatch, JudgedEvent, judge_all
from warrener_supervisor.effects import SupervisorPorts
from warrener_supervisor.heartbeat_sentinel import HeartbeatSentinel
from warrener_supervisor.notifications import cancel_message, superseded_message
from warrener_supervisor.trace_spans import JobSpans

_log = get_logger("presence")
_Found = tuple[JobRow, str, HeartbeatLine, Discrepancy]

TICK = 0.5
"""Seconds between samples of this process."""
_SLOW = 1.0  # seconds that storing one batch of heartbeats may take
_MAX_INTEGER = 2**31 - 1  # of the columns
_FROZEN = 2.0
"""Seconds between two samples after which the process counts as frozen, so that its knowledge is old."""


class HeartbeatCoverage:
    """Decides if the silence of an agent proves anything: a whole lease of uninterrupted consumption is
    needed.

    After a break of the connection agents may have had one too, and need time to come back. A process that
    was frozen (SIGSTOP, a suspended host) has yet to receive the heartbeats of that time.

    `receives`: True while heartbeats are proved to arrive (`HeartbeatSentinel`) and handled at once. `epoch`:
    another value means that the queue was lost with its messages.
    """

    def __init__(self, receives: Callable[[], bool], epoch: Callable[[], object], timings: Timings) -> None:
        self._receives, self._epoch = receives, epoch
        self._lease = timings.lease.total_seconds()
        self._reconnect = timings.reconnect.total_seconds()
        self._known_epoch: object = None
        self._since: float | None = None
        self._looked: float | None = None
        self._broke_off = False

    def sample(self, now: float) -> None:
        """Sample the process at this monotonic moment; called every `TICK` seconds."""
        frozen = self._looked is not None and now - self._looked > _FROZEN
        self._looked = now
        epoch = self._epoch()
        lost = self._since is not None and epoch != self._known_epoch
        self._known_epoch = epoch
        if lost or not self._receives():
            self._broke_off, self._since = self._broke_off or self._since is not None, None
        if frozen:
            self._since = None
        if self._since is None and self._receives():
            self._since = now

    def is_conclusive(self, now: float) -> bool:
        """True if a heartbeat of the last lease would have been received."""
        self.sample(now)
        patience = self._lease + self._reconnect if self._broke_off else self._lease
        return self._since is not None and now - self._since >= patience


class ReceivedHeartbeat(NamedTuple):
    """A heartbeat, and the broker's user that sent it; None if its agent does not say."""

    event: AgentHeartbeat
    user_id: str | None


class HeartbeatConsumer:
    """Stores heartbeats. If any step fails, the next heartbeat repeats it.

    `conclusive`: True while what is received is certain to be new; only then is a loss revoked.
    """

    def __init__(
        self,
        ports: SupervisorPorts,
        tracker: HeartbeatTracker,
        conclusive: Callable[[], bool],
        *,
        sentinel: HeartbeatSentinel,
        owners: AgentOwners,
        spans: JobSpans,
        max_events: int = MAX_EVENTS,
    ) -> None:
        self._inbox = Inbox(HEARTBEATS, {AgentHeartbeat}, max_events=max_events)
        self._ports = ports
        _, self._store, self._clock, self._timings = ports
        self._tracker, self._conclusive = tracker, conclusive
        self._sentinel, self._owners, self._spans = sentinel, owners, spans
        self._busy_since: float | None = None

    @property
    def keeps_up(self) -> bool:
        """True if heartbeats are stored as they arrive: with a slow store, silence proves nothing."""
        return self._busy_since is None or self._clock.monotonic() - self._busy_since < _SLOW

    async def handle(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Store the agents of one batch and look up what is new in their lists."""
        if self._busy_since is None:  # else this is a repeat
            self._busy_since = self._clock.monotonic()
        beats, messages = await self._read(deliveries)
        messages += await self.record(beats)
        await self._ports.publish(messages)
        self._sentinel.note(deliveries)
        await subscription.ack(deliveries)
        self._busy_since = None

    async def _read(self, deliveries: Iterable[Delivery]) -> tuple[list[ReceivedHeartbeat], list[Message]]:
        """Return the newest heartbeat of each agent and user, and the messages to park."""
        beats: dict[tuple[str, str | None], ReceivedHeartbeat] = {}
        parked: list[Message] = []
        for delivery, events in await self._inbox.read(deliveries):
            for found in events:
                if isinstance(found, ParkedEvent):
                    parked.append(found.message)
                elif isinstance(found.event, AgentHeartbeat):
                    received = ReceivedHeartbeat(found.event, delivery.user_id)
                    beats[found.event.data.agent_id, delivery.user_id] = received
        if parked:
            _log.error(
                "Messages other than heartbeats were parked.",
                action="heartbeats.parked",
                messages=len(parked),
            )
        return list(beats.values()), parked

    async def record(self, received: Sequence[ReceivedHeartbeat]) -> list[Message]:
        """Store the agents of these heartbeats; return the messages that follow from their lists. Those that
        do not come from the user of their agent are dropped."""
        now, moment = self._clock.now(), self._clock.monotonic()
        counts = await self._owners.put([_agent(*one, now) for one in received], now)
        own = list(compress(received, counts))
        fresh = {one.event.data.agent_id: self._tracker.note(one.event, moment, now) for one in own}
        users = {one.event.data.agent_id: one.user_id for one in own}
        return [*await self._look_up(fresh, now, users), *await self._check_held([one.event for one in own])]

    async def _check_held(self, beats: Sequence[AgentHeartbeat]) -> list[Message]:
        """Answer the agents that hold attempts back: jobs that go on, and jobs that have ended.

        An attempt that runs elsewhere by the store is not mentioned until its start is judged, nor is one
        that was judged already; it is stopped as soon as a later one runs. A job that is no longer in the
        store has ended.
        """
        held = {beat.data.agent_id: [one for one in beat.data.running if one.held] for beat in beats}
        job_ids = {one.job_id for some in held.values() for one in some}
        rows = await self._store.jobs_by_id(job_ids) if job_ids else {}
        now = self._clock.now()
        checked = [
            build_message(checked_event(agent_id, some, rows, now)) for agent_id, some in held.items() if some
        ]
        return checked + [
            superseded_message(row, one.attempt, now)
            for some in held.values()
            for one in some
            if (row := rows.get(one.job_id)) and one.attempt < row.attempt and row.state is JobState.RUNNING
        ]

    async def _look_up(
        self, fresh: Mapping[str, Iterable[HeartbeatLine]], now: datetime, users: Mapping[str, str | None]
    ) -> list[Message]:
        lines = [(agent_id, line) for agent_id, some in fresh.items() for line in some]
        if not lines:
            return []
        running = await self._store.running_attempts(job_ids={line.job_id for _, line in lines})
        left: list[tuple[str, HeartbeatLine]] = []
        for agent_id, line in lines:
            if matches_store(running, agent_id, line):
                self._tracker.confirm(agent_id, [line])
            else:
                left.append((agent_id, line))
        if not left:
            return []
        rows = await self._store.jobs_by_id({line.job_id for _, line in left})
        found = [
            (rows[line.job_id], agent_id, line, classify_discrepancy(rows[line.job_id], line, agent_id, now))
            for agent_id, line in left
            if line.job_id in rows
        ]
        await self._save(await self._own_starts(found, users), now)
        return [message for row, _, line, each in found for message in _stops(row, line, each, now)]

    async def _own_starts(self, found: Sequence[_Found], users: Mapping[str, str | None]) -> list[_Found]:
        """Leave out starts of jobs whose type belongs to another user: no permission names the jobs that a
        heartbeat lists, as it does those of `attempt.started`."""
        names = {row.job_type for row, _, _, each in found if each.begun is not None}
        types = await self._store.job_types(names) if names else {}
        return [
            one
            for one in found
            if one[3].begun is None
            or (known := types.get(one[0].job_type)) is None
            or known.broker_user in {None, users[one[1]]}
        ]

    async def _save(self, found: Iterable[_Found], now: datetime) -> None:
        """Save signs of life of unannounced attempts, and revoke false losses.

        Of two agents the first counts; the next heartbeat makes up for a save that comes too late. The report
        of the start finds a job that runs already, so what the job has waited for is recorded here.
        """
        conclusive = self._conclusive()
        batches: dict[UUID, JobBatch] = {}
        begun: list[JobRow] = []
        for row, agent_id, line, each in found:
            if row.job_id in batches:
                continue
            if each.begun is not None:
                batches[row.job_id] = judge_all(
                    row, [JudgedEvent(each.begun, 0.0)], JudgeContext(now, self._timings)
                )
                begun.append(row)
            elif (
                each.not_lost
                and conclusive
                and (spared := poison.revoke_loss(row, line.attempt, agent_id)) is not None
            ):
                _log.warning(
                    "A lost attempt still runs; its loss was revoked.",
                    action="losses.revoked",
                    job_id=str(line.job_id),
                    attempt=line.attempt,
                )
                spared = evolve(spared, version=spared.version + 1, updated_at=now)
                batches[row.job_id] = JobBatch(spared, saves=[JobTransition(spared, "not lost")])
        applied, _ = await effects.save(self._store, list(batches.values()))
        self._spans.record_waits_until(now, [row for row in begun if row.job_id in applied])


def _stops(row: JobRow, line: HeartbeatLine, each: Discrepancy, now: datetime) -> Iterable[Message]:
    if each.unwanted:
        yield cancel_message(row, now, TraceContext(row.traceparent, row.tracestate))
    elif each.superseded:
        yield superseded_message(row, line.attempt, now)


def _agent(beat: AgentHeartbeat, user_id: str | None, now: datetime) -> AgentRow:
    data = beat.data
    return AgentRow(
        agent_id=data.agent_id,
        host=data.host,
        pid=min(data.pid, _MAX_INTEGER),
        queues=data.queues,
        slots=min(data.slots, _MAX_INTEGER),
        running=len(data.running),
        draining=data.draining,
        started_at=data.started_at,
        last_seen_at=now,
        job_types=data.job_types,
        free_slots=data.free_slots,
        trouble=data.trouble,
        code_version=data.code_version,
        broker_user=user_id,
    )
