"""The gauges of the store: what they show, that one supervisor reports them, and that none is old."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
from services.supervisor.tests.stage import NOW, agent_row
from tests.store_rows import died, job_type_row, queued_job, waiting_job

from warrener_contracts.circuit_breaker import BreakerPolicy, BreakerState
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import TOPOLOGY
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.bus.port import BusUnreachable
from warrener_runtime.bus.types import QueueStats
from warrener_runtime.telemetry.metric_names import MetricSpec
from warrener_runtime.telemetry.metrics import LabelValues, Metrics
from warrener_runtime.virtual_clock import VirtualClock
from warrener_store.agents.rows import AgentRow, JobTypeRow
from warrener_store.breakers.gate import BreakerRow
from warrener_store.errors import StoreUnavailable
from warrener_store.memory import MemoryStore
from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.effects import SupervisorPorts
from warrener_supervisor.metrics import INTERVAL, StoreGauges, SupervisorMetrics


class SilentBus(MemoryBus):
    away = False

    async def backlog(self, queue: str) -> QueueStats:
        if self.away:
            raise BusUnreachable("away")
        return await super().backlog(queue)


class SilentStore(MemoryStore):
    away = False

    async def job_types(self, names: object = None) -> dict[str, JobTypeRow]:
        if self.away:
            raise StoreUnavailable("away")
        return await super().job_types()


class Scene:
    """A store and a broker, and the gauges of one supervisor and of others."""

    def __init__(self) -> None:
        self.clock = VirtualClock(NOW)
        self.store = SilentStore()
        self.bus = SilentBus(MemoryBroker(self.clock))
        self.metrics, self.gauges = self.supervisor("one")

    def supervisor(self, holder: str) -> tuple[Metrics, StoreGauges]:
        metrics = Metrics()
        ports = SupervisorPorts(self.bus, self.store, self.clock, Timings())
        return metrics, StoreGauges(ports, metrics, SupervisorMetrics(metrics), holder=holder)

    def series(self, name: str) -> dict[LabelValues, float]:
        return series(self.metrics, name)


def series(metrics: Metrics, name: str) -> dict[LabelValues, float]:
    found = [reading for reading in metrics.read() if reading.spec.name == name]
    return dict(found[0].numbers) if found else {}


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    one = Scene()
    await one.bus.start()
    await one.bus.declare(TOPOLOGY)
    await one.store.put_job_types([job_type_row("send", queue="mail"), job_type_row("load", queue="etl")])
    yield one
    await one.bus.close()


def agent(agent_id: str, *queues: str, silent_for: float = 1.0, draining: bool = False) -> AgentRow:
    seen_at = NOW - timedelta(seconds=silent_for)
    return agent_row(agent_id, queues=queues, draining=draining, last_seen_at=seen_at)


async def test_queues_show_their_jobs_agents_and_depths(scene: Scene) -> None:
    dead = queued_job(queue="etl")
    old = queued_job(queue="mail", dispatched_at=NOW - timedelta(minutes=5))
    new = queued_job(queue="mail", dispatched_at=NOW)
    await scene.store.insert_jobs([old, new, queued_job(queue="own"), waiting_job(), dead])
    await scene.store.save_jobs([died(dead)])
    silent, leaving = agent("gone", "etl", silent_for=20), agent("leaving", "mail", draining=True)
    await scene.store.put_agents([agent("ada", "mail"), agent("bob", "mail", "own"), silent, leaving])
    await scene.gauges.run_once()
    jobs = scene.series("warrener.jobs")
    assert (jobs["mail", "queued"], jobs["own", "queued"], jobs["etl", "dead"]) == (2, 1, 1)
    assert jobs["etl", "queued"] == 0, "a known queue without such jobs has a series all the same"
    assert len(jobs) == len({queue for queue, _ in jobs}) * len(JobState)
    ages = scene.series("warrener.queue.oldest_age")
    assert (ages["mail",], ages["etl",]) == (300.0, 0.0)
    assert scene.series("warrener.agents.alive") == {("mail",): 2, ("own",): 1, ("etl",): 0, ("default",): 0}
    depths = {queue for (queue,) in scene.series("warrener.queue.messages")}
    assert {"warrener.requests", "warrener.status", "warrener.queue.mail"} <= depths
    levels = {level for (level,) in scene.series("warrener.delay.messages")}
    assert levels == {"1s", "5s", "15s", "1m", "5m", "15m", "1h"}
    assert scene.series("warrener.dead_letters") == {("send",): 0, ("load",): 0}, "alerts watch it"
    lost = scene.series("warrener.attempts.lost")
    assert lost.keys() >= {("mail",), ("etl",)}
    assert set(lost.values()) == {0}


async def test_a_breaker_has_one_state(scene: Scene) -> None:
    row = BreakerRow(
        name="job:send", state=BreakerState.HALF_OPEN, since=NOW, reason="", policy=BreakerPolicy()
    )
    await scene.store.put_breaker(row)
    await scene.gauges.run_once()
    assert scene.series("warrener.breaker.state") == {
        ("job:send", "closed"): 0,
        ("job:send", "half_open"): 1,
        ("job:send", "open"): 0,
    }
    await scene.store.put_breaker(replace(row, version=2, state=BreakerState.CLOSED))
    await scene.gauges.run_once()
    assert scene.series("warrener.breaker.state")["job:send", "closed"] == 1


async def test_another_takes_over_when_the_one_that_reports_dies_and_at_once_when_it_stops(
    scene: Scene,
) -> None:
    other_metrics, other = scene.supervisor("other")
    await scene.gauges.run_once()
    for _ in range(3):
        await scene.clock.advance(INTERVAL.total_seconds())
        await other.run_once()
    assert series(other_metrics, "warrener.jobs")
    await scene.gauges.run_once()  # it was only frozen
    assert not scene.series("warrener.jobs")
    await other.release()
    await scene.gauges.run_once()
    assert scene.series("warrener.jobs")
    assert not series(other_metrics, "warrener.jobs")


async def test_nothing_old_is_shown_while_the_broker_or_the_store_is_away(scene: Scene) -> None:
    await scene.gauges.run_once()
    scene.bus.away = True
    await scene.gauges.run_once()
    assert scene.series("warrener.jobs")
    assert not scene.series("warrener.queue.messages")
    scene.store.away = True
    with pytest.raises(StoreUnavailable):
        await scene.gauges.run_once()
    assert not scene.series("warrener.jobs")
    await scene.gauges.release()  # a stop goes on


def test_a_metric_of_the_supervisor_is_declared_for_it() -> None:
    metrics = Metrics()
    declared: list[MetricSpec] = []
    metrics.on_instrument(lambda instrument: declared.append(instrument.spec))
    SupervisorMetrics(metrics)
    assert all("supervisor" in spec.services for spec in declared)
