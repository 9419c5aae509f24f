"""The view of the whole system, made from two readings of the store and one of the broker. Pure.

A reading counts nothing over a table: the store keeps the numbers of jobs as jobs change, and lists come from
indexes with a limit.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from warrener.gathering import BrokerFacts, queue_facts
from warrener.operations.agents import AgentSummary
from warrener.operations.breakers import Breaker, paused_queues
from warrener.operations.incidents import Incident
from warrener.operations.parked import ListedMessage
from warrener.operations.queues import QueueSummary, queues_of
from warrener.operations.schedules import ListedSchedule
from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.rows import DeadLetter
from warrener_store.jobs.rows import StateCount
from warrener_store.jobs.views import QueueHead

MAX_ROWS = 100  # maximum number of rows of a list


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """The lists of nouns that readings and views have."""

    agents: Sequence[AgentSummary] = ()
    breakers: Sequence[Breaker] = ()  # those that are not closed
    incidents: Sequence[Incident] = ()
    schedules: Sequence[ListedSchedule] = ()  # those that are looked at next
    dead_letters: Sequence[DeadLetter] = ()
    parked: Sequence[ListedMessage] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReading(Lists):
    """The store at one moment."""

    at: float  # seconds, by this machine's monotonic clock
    now: datetime  # by the store's clock
    counts: Sequence[StateCount] = ()
    heads: Sequence[QueueHead] = ()
    duties: Mapping[str, str]

    @property
    def queues(self) -> set[str]:
        named = {queue for agent in self.agents for queue in agent.queues}
        return named | {count.queue for count in self.counts}


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
class SystemView(Lists):
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


def make_view(
    store: StoreReading | str,
    broker: BrokerFacts,
    delayed: int | None,
    before: StoreReading | None,
    here: datetime,
) -> SystemView:
    """Make the view; `store` is a reading, or why there is none, `before` an earlier one, `here` this
    machine's time."""
    is_known = isinstance(store, StoreReading)
    reading = store if isinstance(store, StoreReading) else StoreReading(at=0, now=here, duties={})
    passed = reading.at - before.at if before is not None and is_known else 0.0
    changes = _Changes(reading.counts, before.counts if before is not None else (), passed)
    lists: dict[str, Any] = {one.name: getattr(reading, one.name) for one in fields(Lists)}
    return SystemView(
        at=reading.now,
        broker=broker.product,
        store_trouble=store or None if isinstance(store, str) else None,
        broker_trouble=broker.trouble,
        requests_waiting=None if broker.requests is None else broker.requests.messages,
        reports_waiting=None if broker.statuses is None else broker.statuses.messages,
        delayed=delayed,
        services=_services(reading, broker, is_known=is_known),
        totals=Totals(
            jobs={state.value: changes.count(state) if is_known else None for state in JobState},
            requested_rate=changes.rate(*JobState),
            finished_rate=changes.rate(*_OVER),
            failed_rate=changes.rate(*_FAILED),
        ),
        queues=_queue_lines(reading, broker, changes),
        job_types=[
            TypeLine(
                name=name,
                jobs={state: changes.count(state, job_type=name) for state in JobState},
                succeeded_rate=changes.rate(JobState.SUCCEEDED, job_type=name),
                failed_rate=changes.rate(*_FAILED, job_type=name),
            )
            for name in sorted({one.job_type for one in reading.counts})
        ],
        **lists,
    )


_OVER = tuple(state for state in JobState if state.terminal)
_FAILED = (JobState.DEAD, JobState.EXPIRED)
_Sums = Counter[tuple[str | None, str | None, JobState]]
"""Numbers of jobs by type or by queue, or of all, each by state."""


class _Changes:
    """Jobs now, and how fast their numbers change.

    A deletion of old jobs between two readings lowers a number; a rate is never below zero.
    """

    def __init__(self, counts: Iterable[StateCount], before: Iterable[StateCount], seconds: float) -> None:
        self._now, self._before, self._seconds = _sums(counts), _sums(before), seconds

    def count(self, *states: JobState, job_type: str | None = None, queue: str | None = None) -> int:
        """The jobs of these states, of one type or one queue or all."""
        return sum(self._now[job_type, queue, state] for state in states)

    def rate(self, *states: JobState, job_type: str | None = None, queue: str | None = None) -> float | None:
        """Jobs a second that came to these states. None without an earlier reading."""
        if self._seconds <= 0:
            return None
        earlier = sum(self._before[job_type, queue, state] for state in states)
        return max(0.0, (self.count(*states, job_type=job_type, queue=queue) - earlier) / self._seconds)


def _sums(counts: Iterable[StateCount]) -> _Sums:
    sums = _Sums()
    for one in counts:
        for job_type, queue in ((None, None), (one.job_type, None), (None, one.queue)):
            sums[job_type, queue, one.state] += one.jobs
    return sums


def _services(reading: StoreReading, broker: BrokerFacts, *, is_known: bool) -> Services:
    alive = [agent for agent in reading.agents if agent.state != "silent"]
    return Services(
        schedulers=None if broker.requests is None else broker.requests.consumers,
        supervisors=None if broker.statuses is None else broker.statuses.consumers,
        duties=dict(reading.duties),
        agents_alive=len(alive) if is_known else None,
        agents_silent=len(reading.agents) - len(alive) if is_known else None,
        slots_used=sum(agent.running for agent in alive) if is_known else None,
        slots_free=sum(sum(agent.free_slots.values()) for agent in alive) if is_known else None,
    )


def _queue_lines(reading: StoreReading, broker: BrokerFacts, changes: _Changes) -> list[QueueLine]:
    names = sorted(reading.queues | broker.queues.keys())
    at_broker = {name: queue_facts(name, info) for name, info in broker.queues.items()}
    paused = paused_queues(reading.breakers)
    lines = queues_of(names, reading.counts, reading.heads, reading.agents, at_broker, paused=paused)
    return [
        QueueLine(
            **dict(one),
            in_rate=changes.rate(*JobState, queue=one.name),
            out_rate=changes.rate(*_OVER, queue=one.name),
        )
        for one in lines
    ]
