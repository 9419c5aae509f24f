"""The view of the whole system, made from two readings of the store and one of the broker. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel

from warrener.doctor.inspector import QueueInfo
from warrener.gathering import BrokerFacts, queue_facts
from warrener.operations.agents import AgentSummary
from warrener.operations.breakers import Breaker
from warrener.operations.incidents import Incident
from warrener.operations.parked import ListedMessage
from warrener.operations.queues import QueueSummary, queues_of
from warrener.operations.schedules import ListedSchedule
from warrener.top.readings import StoreReading, Unavailable
from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.rows import DeadLetter
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


class QueueLine(QueueSummary):
    """A queue, and its jobs a second: those that were accepted, and those that ended."""

    in_rate: float | None
    out_rate: float | None


class TypeLine(BaseModel):
    """A job type: its jobs by state, and jobs a second. Those that failed died or expired."""

    name: str
    jobs: dict[JobState, int]
    succeeded_rate: float | None
    failed_rate: float | None


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
    queues: Sequence[QueueLine]
    job_types: Sequence[TypeLine]
    agents: Sequence[AgentSummary]
    breakers: Sequence[Breaker]
    incidents: Sequence[Incident]
    schedules: Sequence[ListedSchedule]
    dead_letters: Sequence[DeadLetter]
    parked: Sequence[ListedMessage]


def make_view(
    store: StoreReading | Unavailable,
    broker: BrokerFacts,
    delayed: int | None,
    before: StoreReading | None,
    here: datetime,
) -> SystemView:
    """Make the view; `before` is an earlier reading of the store, `here` this machine's time."""
    is_known = isinstance(store, StoreReading)
    reading = store if isinstance(store, StoreReading) else StoreReading(at=0, now=here, duties={})
    passed = reading.at - before.at if before is not None and is_known else 0.0
    changes = _Changes(reading.counts, before.counts if before is not None else (), passed)
    return SystemView(
        at=reading.now,
        broker=broker.product,
        store_trouble=(store.why or None) if isinstance(store, Unavailable) else None,
        broker_trouble=broker.trouble,
        requests_waiting=_messages(broker.requests),
        reports_waiting=_messages(broker.statuses),
        delayed=delayed,
        services=_services(store, broker),
        totals=changes.totals() if is_known else _NO_TOTALS,
        queues=list(_queue_lines(reading, broker, changes)),
        job_types=[changes.type_line(name) for name in changes.job_types],
        agents=reading.agents,
        breakers=reading.breakers,
        incidents=reading.incidents,
        schedules=reading.schedules,
        dead_letters=reading.dead_letters,
        parked=reading.parked,
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
            name=name,
            jobs={state: self.count(state, job_type=name) for state in JobState},
            succeeded_rate=self.rate(JobState.SUCCEEDED, job_type=name),
            failed_rate=self.rate(*_FAILED, job_type=name),
        )


_NO_TOTALS = Totals(
    jobs={state.value: None for state in JobState}, requested_rate=None, finished_rate=None, failed_rate=None
)


def _messages(queue: QueueInfo | None) -> int | None:
    return None if queue is None else queue.messages


def _consumers(queue: QueueInfo | None) -> int | None:
    return None if queue is None else queue.consumers


def _services(store: StoreReading | Unavailable, broker: BrokerFacts) -> Services:
    known = isinstance(store, StoreReading)
    agents = store.agents if isinstance(store, StoreReading) else ()
    alive = [agent for agent in agents if agent.state != "silent"]
    return Services(
        schedulers=_consumers(broker.requests),
        supervisors=_consumers(broker.statuses),
        duties=dict(store.duties) if isinstance(store, StoreReading) else {},
        agents_alive=len(alive) if known else None,
        agents_silent=len(agents) - len(alive) if known else None,
        slots_used=sum(agent.running for agent in alive) if known else None,
        slots_free=sum(sum(agent.free_slots.values()) for agent in alive) if known else None,
    )


def _queue_lines(reading: StoreReading, broker: BrokerFacts, changes: _Changes) -> Iterable[QueueLine]:
    names = sorted(reading.queues | broker.queues.keys())
    at_broker = {name: queue_facts(name, info) for name, info in broker.queues.items()}
    for one in queues_of(names, reading.counts, reading.heads, reading.agents, at_broker):
        yield QueueLine(
            **dict(one),
            in_rate=changes.rate(*JobState, queue=one.name),
            out_rate=changes.rate(*_OVER, queue=one.name),
        )
