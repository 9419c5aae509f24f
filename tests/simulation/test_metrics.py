"""Every declared metric is written by the services that it names, and no service writes another one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.simulation.workload import job_request
from tests.simulation.world import World

from warrener_contracts import topology
from warrener_contracts.events import AttemptSuspended, BreakerSetRequested, Event, SchedulePut
from warrener_contracts.inbox import Inbox
from warrener_contracts.messages import Message, build_message
from warrener_runtime.bus import Delivery
from warrener_runtime.bus.memory import MemoryBus
from warrener_runtime.settings import ServiceSettings
from warrener_runtime.telemetry import Telemetry
from warrener_runtime.telemetry.metric_names import SPANS_DROPPED, STORE_DURATION, declared_metrics
from warrener_runtime.telemetry.metrics import LabelValues, MetricReading, Metrics
from warrener_store import migrate, open_store

SERVICES = ("scheduler", "agent", "supervisor")
OF_DATABASES_AND_COLLECTORS = {STORE_DURATION.name, SPANS_DROPPED.name}
"""Written with a real store and a real exporter, of which this world has neither."""
UNREADABLE = UUID(int=99)
"""A request that meets a bug of its reader, beside another one that does not."""


class Scene:
    """A world of one service of each kind whose metrics are read."""

    def __init__(self) -> None:
        self.telemetry = {kind: Telemetry(metrics=Metrics()) for kind in SERVICES}
        self.world = World(7, schedulers=1, supervisors=1, agents=1, rests=(20.0,), telemetry=self.telemetry)

    async def send(self, kind: type[Event[Any]], **data: Any) -> None:
        event = kind.model_validate({"id": kind.__name__, "source": "test", "data": data})
        await self.world.publish(build_message(event))

    async def request(self, job_type: str, number: int, **fields: Any) -> None:
        await self.world.publish(job_request(UUID(int=number), job_type, **fields))

    def readings(self, kind: str) -> dict[str, MetricReading]:
        return {one.spec.name: one for one in self.telemetry[kind].metrics.read()}

    def numbers(self, kind: str, name: str) -> Mapping[LabelValues, float]:
        return self.readings(kind)[f"warrener.{name}"].numbers

    def observations(self, kind: str, name: str) -> Mapping[LabelValues, int]:
        found = self.readings(kind)[f"warrener.{name}"].histograms
        return {labels: value.values for labels, value in found.items()}


async def play(scene: Scene) -> None:
    """All that services count: jobs that succeed, die, wait and are lost; ticks; a breaker; parking."""
    world = scene.world
    await scene.request("quick", 1, arguments={"number": 1})
    await scene.request("quick", 1, arguments={"number": 1})
    await scene.request("flaky", 2, arguments={"failures": 1})
    await scene.request("doomed", 3)
    await scene.request("quick", 4, arguments={"number": 2}, delay=3)
    await scene.request("nobody.can", 5)
    rule = {"kind": "interval", "every": 10}
    await scene.send(SchedulePut, name="often", rule=rule, job_type="quick", arguments={"number": 3})
    await scene.send(BreakerSetRequested, name="job:hanging", state="open")
    key, kind = "attempt.started.quick", "application/cloudevents+json"
    await world.publish(Message(topology.STATUS, key, b"{broken", kind, "broken-1", "poison", {}))
    await world.clock.advance(30)
    await scene.request("slow", 6, arguments={"seconds": 45})
    await world.clock.advance(5)
    world.process("agent").life.dead.set()
    await world.clock.advance(120)


async def suspend(scene: Scene, number: int) -> None:
    """Suspend a job as a workflow until now, so that its next turn follows."""
    await scene.request("slow", number, arguments={"seconds": 45})
    await scene.world.clock.advance(2)
    now = scene.world.clock.now()
    of = {"job_id": UUID(int=number), "attempt": 1, "job_type": "slow", "agent_id": "a"}
    times = dict.fromkeys(("started_at", "finished_at"), now)
    data = {**of, **times, "suspension": {"wake_at": now}}
    event = AttemptSuspended.model_validate({"id": "suspended", "source": "test", "data": data})
    bus = MemoryBus(scene.world.broker, name="agent", user_id="agent")  # the user of the world's agents
    await bus.start()
    await bus.publish([build_message(event)])
    await bus.close()


async def test_each_service_writes_the_metrics_that_are_declared_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, read = Scene(), Inbox.read

    async def read_or_fail(inbox: Inbox, deliveries: Sequence[Delivery]) -> Any:
        if any(str(UNREADABLE).encode() in one.body for one in deliveries):
            raise KeyError("a bug")
        return await read(inbox, deliveries)

    monkeypatch.setattr(Inbox, "read", read_or_fail)
    async with scene.world:
        readable = job_request(UUID(int=98), "quick", arguments={"number": 4})
        await scene.world.publish(readable, job_request(UNREADABLE, "quick"))
        await suspend(scene, 7)
        await play(scene)
        assert scene.numbers("scheduler", "parked") == {("rejected",): 1}
        for kind in SERVICES:
            declared = {spec.name for spec in declared_metrics() if kind in spec.services}
            assert scene.readings(kind).keys() == declared - OF_DATABASES_AND_COLLECTORS, kind


async def test_metrics_count_what_happened() -> None:
    scene = Scene()
    async with scene.world:
        await play(scene)
        requested = scene.numbers("scheduler", "jobs.requested")
        assert requested["quick", "duplicate"] == 1
        assert requested["doomed", "accepted"] == 1
        assert requested["", "rejected"] == 1, "a type that nobody announced is no value of the label"
        finished = scene.numbers("supervisor", "jobs.finished")
        assert finished["quick", "succeeded"] >= 3
        assert finished["doomed", "dead"] == 1
        assert finished["flaky", "succeeded"] == finished["slow", "succeeded"] == 1
        durations = scene.observations("supervisor", "job.duration")
        assert sum(finished.values()) == sum(durations.values())
        assert scene.numbers("supervisor", "dead_letters")["doomed",] == 1
        retried = Counter[str]()
        for (job_type, _), count in scene.numbers("supervisor", "attempts.retried").items():
            retried[job_type] += int(count)
        assert (retried["flaky"], retried["doomed"], retried["slow"]) == (1, 1, 1)
        assert scene.numbers("supervisor", "attempts.lost")["default",] == 1
        assert scene.numbers("supervisor", "parked")["not_json",] == 1
        assert scene.numbers("supervisor", "agents.alive")["default",] == 1
        jobs = scene.numbers("supervisor", "jobs")
        assert jobs["default", "dead"] == 1
        assert jobs["default", "queued"] == jobs["default", "running"] == 0
        assert scene.numbers("supervisor", "breaker.state")["job:hanging", "open"] == 1
        delayed = scene.numbers("supervisor", "delay.messages")
        assert delayed.keys() == {(level.name,) for level in topology.DELAY_LEVELS}
        slots = scene.numbers("agent", "agent.slots")
        assert slots == {("default", "free"): 4, ("default", "used"): 0}
        assert scene.observations("scheduler", "job.schedule_lag")["quick",] == 1
        assert scene.numbers("scheduler", "ticks")["fired",] >= 10


async def test_statements_of_the_store_are_timed(tmp_path: Path) -> None:
    metrics = Metrics()
    url = f"sqlite:///{tmp_path}/state.db"
    await migrate(url)
    store = open_store(url, observer=metrics.histogram(STORE_DURATION).record)
    await store.start()
    await store.count_jobs()
    await store.ping()
    await store.close()
    (reading,) = metrics.read()
    assert reading.spec is STORE_DURATION
    assert reading.histograms.keys() == {("read", ""), ("write", "")}


async def test_spans_that_are_not_sent_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"OTEL_EXPORTER_OTLP_TIMEOUT": "1", "OTEL_METRICS_EXPORTER": "prometheus"}.items():
        monkeypatch.setenv(name, value)
    settings = ServiceSettings(otlp_endpoint="http://127.0.0.1:9", otlp_protocol="http/protobuf")
    telemetry = Telemetry.from_settings("warrener-agent", settings)
    telemetry.span("work").finish()
    await telemetry.shutdown()
    (reading,) = telemetry.metrics.read()
    assert reading.spec is SPANS_DROPPED
    assert reading.numbers == {(): 1}
