"""The view of the whole system, made from two readings of the store and one of the broker. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from warrener.doctor.inspector import QueueInfo
from warrener.explanations.facts import first_line
from warrener.top.readings import BrokerReading, StoreReading, Unavailable
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.state_machine import JobState
from warrener_store.agents.rows import SILENT_AFTER, AgentRow
from warrener_store.jobs.rows import StateCount


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services that are present. A count is None while the broker, or for agents the store, is silent."""

    schedulers: int | None
    supervisors: int | None
    duties: Mapping[str, str]  # their holders, by duty
    agents_alive: int | None
    agents_silent: int | None
    slots_used: int | None
    slots_free: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """All jobs by state, and jobs a second.

    A rate is None before a second reading, and every number while the store does not answer.
    """

    jobs: Mapping[str, int | None]
    requested_rate: float | None
    finished_rate: float | None
    failed_rate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """A dispatch queue. `messages` and `consumers` are None where the broker has no such queue."""

    queue: str
    waiting: int  # for time, a limit or another job
    queued: int
    running: int
    retrying: int
    messages: int | None
    consumers: int | None
    oldest_seconds: float | None  # for how long the oldest dispatched job has waited
    in_rate: float | None  # jobs a second that were accepted
    out_rate: float | None  # jobs a second that ended


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeLine:
    """A job type."""

    job_type: str
    waiting: int
    running: int
    retrying: int
    succeeded_rate: float | None
    failed_rate: float | None  # jobs a second that died or expired
    dead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLine:
    """An agent as of its last heartbeat."""

    agent: str
    host: str
    state: str  # alive, draining, troubled or silent
    slots_used: int
    slots_free: int
    queues: tuple[str, ...]
    job_types: int | None
    last_seen_at: datetime
    trouble: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerLine:
    """A circuit breaker that is not closed."""

    breaker: str
    state: str
    since: datetime
    until: datetime | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentLine:
    """An open incident."""

    incident: str
    kind: str
    about: str
    times: int
    last_seen_at: datetime
    acknowledged_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleLine:
    """A schedule with its next tick. `lag_seconds`: for how long a scheduler should have looked at it."""

    schedule: str
    job_type: str
    next_at: datetime | None
    lag_seconds: float
    paused: bool
    waiting_ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterLine:
    """An unresolved dead letter."""

    job: str
    job_type: str
    cause: str  # its fingerprint
    died_at: datetime
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedLine:
    """A parked message."""

    parked_id: str
    queue: str
    reason: str
    parked_at: datetime
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemView:
    """The whole system. Values of the store or the broker are absent while it does not answer."""

    at: datetime
    broker: str | None
    store_trouble: str | None
    broker_trouble: str | None
    requests_waiting: int | None
    reports_waiting: int | None
    delayed: int | None
    services: Services
    totals: Totals
    queues: tuple[QueueLine, ...]
    types: tuple[TypeLine, ...]
    agents: tuple[AgentLine, ...]
    breakers: tuple[BreakerLine, ...]
    incidents: tuple[IncidentLine, ...]
    schedules: tuple[ScheduleLine, ...]
    dead_letters: tuple[DeadLetterLine, ...]
    parked: tuple[ParkedLine, ...]


def make_view(
    store: StoreReading | Unavailable,
    broker: BrokerReading | Unavailable,
    before: StoreReading | None,
    here: datetime,
) -> SystemView:
    """Make the view; `before` is an earlier reading of the store, `here` this machine's time."""
    reading = store if isinstance(store, StoreReading) else StoreReading(at=0, now=here, duties={})
    known = broker if isinstance(broker, BrokerReading) else None
    passed = reading.at - before.at if before is not None and isinstance(store, StoreReading) else 0.0
    changes = _Changes(reading.counts, before.counts if before is not None else (), passed)
    agents = tuple(_agent_line(row, reading.now) for row in reading.agents)
    return SystemView(
        at=reading.now,
        broker=known.broker if known is not None else None,
        store_trouble=(store.why or None) if isinstance(store, Unavailable) else None,
        broker_trouble=(broker.why or None) if isinstance(broker, Unavailable) else None,
        requests_waiting=known.requests.messages if known is not None and known.requests else None,
        reports_waiting=known.statuses.messages if known is not None and known.statuses else None,
        delayed=known.delayed if known is not None else None,
        services=_services(store, known, agents),
        totals=changes.totals() if isinstance(store, StoreReading) else _NO_TOTALS,
        queues=tuple(_queue_lines(reading, known, changes)),
        types=tuple(changes.type_line(name) for name in changes.job_types),
        agents=agents,
        breakers=tuple(
            BreakerLine(
                breaker=row.name, state=row.state.value, since=row.since, until=row.until, reason=row.reason
            )
            for row in reading.breakers
            if row.state is not BreakerState.CLOSED
        ),
        incidents=tuple(
            IncidentLine(
                incident=row.fingerprint,
                kind=row.kind,
                about=row.job_type or row.subject,
                times=row.times,
                last_seen_at=row.last_seen_at,
                acknowledged_by=row.acknowledged_by,
            )
            for row in reading.incidents
        ),
        schedules=tuple(
            ScheduleLine(
                schedule=row.name,
                job_type=row.definition.job_type,
                next_at=row.next_at,
                lag_seconds=max(0.0, (reading.now - row.wake_at).total_seconds()) if row.wake_at else 0.0,
                paused=row.paused,
                waiting_ticks=row.waiting,
            )
            for row in reading.schedules
        ),
        dead_letters=tuple(
            DeadLetterLine(
                job=str(row.job_id),
                job_type=row.job_type,
                cause=row.fingerprint,
                died_at=row.died_at,
                error=f"{row.error.type}: {first_line(row.error.message)}" if row.error else row.reason,
            )
            for row in reading.dead_letters
        ),
        parked=tuple(
            ParkedLine(
                parked_id=row.parked_id,
                queue=row.queue,
                reason=row.reason,
                parked_at=row.parked_at,
                detail=first_line(row.detail),
            )
            for row in reading.parked
        ),
    )


_OVER = tuple(state for state in JobState if state.terminal)
_FAILED = (JobState.DEAD, JobState.EXPIRED)


class _Jobs:
    """Numbers of jobs by type, by queue and of all, each by state."""

    def __init__(self, counts: Iterable[StateCount]) -> None:
        self.job_types: set[str] = set()
        self._jobs: Counter[tuple[str | None, str | None, JobState]] = Counter()
        for one in counts:
            self.job_types.add(one.job_type)
            self._jobs[None, None, one.state] += one.jobs
            self._jobs[one.job_type, None, one.state] += one.jobs
            self._jobs[None, one.queue, one.state] += one.jobs

    def count(self, *states: JobState, job_type: str | None = None, queue: str | None = None) -> int:
        """The jobs of these states, of one type or one queue or all."""
        return sum(self._jobs[job_type, queue, state] for state in states)


class _Changes:
    """Jobs now, and how fast their numbers change.

    A deletion of old jobs between two readings lowers a number; a rate is never below zero.
    """

    def __init__(self, counts: Iterable[StateCount], before: Iterable[StateCount], seconds: float) -> None:
        self._now, self._before, self._seconds = _Jobs(counts), _Jobs(before), seconds
        self.job_types = sorted(self._now.job_types)
        self.count = self._now.count

    def rate(self, *states: JobState, job_type: str | None = None, queue: str | None = None) -> float | None:
        """Jobs a second that came to these states. None without an earlier reading."""
        if self._seconds <= 0:
            return None
        earlier = self._before.count(*states, job_type=job_type, queue=queue)
        return max(0.0, (self.count(*states, job_type=job_type, queue=queue) - earlier) / self._seconds)

    def totals(self) -> Totals:
        """Make the numbers of all jobs."""
        return Totals(
            jobs={state.value: self.count(state) for state in JobState},
            requested_rate=self.rate(*JobState),
            finished_rate=self.rate(*_OVER),
            failed_rate=self.rate(*_FAILED),
        )

    def type_line(self, name: str) -> TypeLine:
        """Make the line of one job type."""
        return TypeLine(
            job_type=name,
            waiting=self.count(JobState.WAITING, JobState.QUEUED, job_type=name),
            running=self.count(JobState.RUNNING, job_type=name),
            retrying=self.count(JobState.RETRYING, job_type=name),
            succeeded_rate=self.rate(JobState.SUCCEEDED, job_type=name),
            failed_rate=self.rate(*_FAILED, job_type=name),
            dead=self.count(JobState.DEAD, job_type=name),
        )


_NO_TOTALS = Totals(
    jobs={state.value: None for state in JobState}, requested_rate=None, finished_rate=None, failed_rate=None
)


def _services(
    store: StoreReading | Unavailable, broker: BrokerReading | None, agents: Sequence[AgentLine]
) -> Services:
    alive = [agent for agent in agents if agent.state != "silent"]
    is_known = isinstance(store, StoreReading)
    return Services(
        schedulers=_consumers(broker.requests) if broker is not None else None,
        supervisors=_consumers(broker.statuses) if broker is not None else None,
        duties=dict(store.duties) if isinstance(store, StoreReading) else {},
        agents_alive=len(alive) if is_known else None,
        agents_silent=len(agents) - len(alive) if is_known else None,
        slots_used=sum(agent.slots_used for agent in alive) if is_known else None,
        slots_free=sum(agent.slots_free for agent in alive) if is_known else None,
    )


def _consumers(queue: QueueInfo | None) -> int:
    return queue.consumers if queue is not None else 0


def _queue_lines(
    reading: StoreReading, broker: BrokerReading | None, changes: _Changes
) -> Iterable[QueueLine]:
    oldest = {head.queue: head.oldest for head in reading.heads}
    for name in sorted(reading.queues | (broker.queues.keys() if broker is not None else set())):
        at_broker = broker.queues.get(name) if broker is not None else None
        since = oldest.get(name)
        yield QueueLine(
            queue=name,
            waiting=changes.count(JobState.WAITING, queue=name),
            queued=changes.count(JobState.QUEUED, queue=name),
            running=changes.count(JobState.RUNNING, queue=name),
            retrying=changes.count(JobState.RETRYING, queue=name),
            messages=at_broker.messages if at_broker is not None else None,
            consumers=at_broker.consumers if at_broker is not None else None,
            oldest_seconds=max(0.0, (reading.now - since).total_seconds()) if since is not None else None,
            in_rate=changes.rate(*JobState, queue=name),
            out_rate=changes.rate(*_OVER, queue=name),
        )


def _agent_line(row: AgentRow, now: datetime) -> AgentLine:
    if now - row.last_seen_at > SILENT_AFTER:
        state = "silent"
    elif row.trouble:
        state = "troubled"
    else:
        state = "draining" if row.draining else "alive"
    free = sum(row.free_slots.values()) if row.free_slots is not None else max(0, row.slots - row.running)
    return AgentLine(
        agent=row.agent_id,
        host=row.host,
        state=state,
        slots_used=row.running,
        slots_free=0 if state == "silent" else free,
        queues=row.queues,
        job_types=None if row.job_types is None else len(row.job_types),
        last_seen_at=row.last_seen_at,
        trouble=row.trouble,
    )
