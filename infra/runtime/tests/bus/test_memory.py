"""The broker in memory as a test kit: virtual time, faults on order; and the metrics of buses and consumers.

`tests/conformance/test_bus.py` has what all buses do.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.conformance.bus_rigs import WORK, make_message, make_messages, receive

from warrener_contracts.messages import Message
from warrener_contracts.topology import TOPOLOGY, Binding, Exchange, Queue, Topology, dispatch_queue
from warrener_runtime.bus import Bus, BusUnreachable, PublishResult
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.bus.port import Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.lifecycle import Consumer
from warrener_runtime.publishing import publish_all
from warrener_runtime.telemetry import metric_names
from warrener_runtime.telemetry.metrics import LabelValues, Metrics
from warrener_runtime.virtual_clock import VirtualClock

DISPATCH = dispatch_queue("default")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def broker(clock: VirtualClock) -> MemoryBroker:
    return MemoryBroker(clock)


@pytest.fixture
async def bus(broker: MemoryBroker) -> AsyncIterator[Bus]:
    bus = MemoryBus(broker)
    await bus.start()
    await bus.declare(TOPOLOGY.with_queues([DISPATCH]))
    yield bus
    await bus.close()


def dispatch(name: str) -> Message:
    return make_message(name, "default.x", "warrener.dispatch")


def delayed(name: str, delay: str) -> Message:
    return make_message(name, f"{delay}.default.x", "warrener.delay", mandatory=False)


async def test_an_hour_in_the_delay_queue_passes_in_virtual_time(
    bus: Bus, broker: MemoryBroker, clock: VirtualClock
) -> None:
    await bus.publish([delayed("slow", "1h"), delayed("fast", "5s"), delayed("later", "5s")])
    await clock.advance(4.9)
    assert broker.ready(DISPATCH.name) == 0
    await clock.advance(0.2)
    assert [one.body for one in broker.peek(DISPATCH.name)] == [b"fast", b"later"]
    await clock.advance(3600)
    assert broker.ready(DISPATCH.name) == 3


async def test_a_stopped_broker_answers_nobody_and_serves_who_waits_for_it_when_it_comes(
    bus: Bus, broker: MemoryBroker, clock: VirtualClock
) -> None:
    await bus.publish([delayed("x", "15s")])
    broker.stop()
    publishing = asyncio.create_task(bus.publish([dispatch("a")], timeout=10))
    pinging = asyncio.create_task(bus.ping(timeout=5))
    await clock.advance(5)
    with pytest.raises(BusUnreachable):
        await pinging
    assert not publishing.done()
    await clock.advance(5)
    assert await publishing == [PublishResult.UNKNOWN]
    await clock.advance(50)
    publishing = asyncio.create_task(bus.publish([dispatch("a")]))
    await clock.advance(3)
    assert broker.ready(DISPATCH.name) == 0
    broker.start()
    assert await publishing == [PublishResult.CONFIRMED]
    await clock.settle()
    assert broker.ready(DISPATCH.name) == 2, "time has gone on for the delayed one"


async def test_a_lost_confirm_makes_a_repeat_and_not_a_loss(
    bus: Bus, broker: MemoryBroker, clock: VirtualClock
) -> None:
    broker.lose_confirms(1)
    job = dispatch("job")
    publishing = asyncio.create_task(publish_all(bus, [job], clock=clock))
    await clock.advance(1)
    await publishing
    assert [one.message_id for one in broker.peek(DISPATCH.name)] == ["job", "job"]


async def test_duplicates_can_be_ordered(bus: Bus, broker: MemoryBroker) -> None:
    broker.duplicate(1)
    await bus.publish([dispatch(name) for name in "ab"])
    assert [one.message_id for one in broker.peek(DISPATCH.name)] == ["a", "a", "b"]


async def test_a_connection_may_break_before_or_after_the_message_arrived(
    bus: Bus, broker: MemoryBroker
) -> None:
    job = dispatch("job")
    soon = asyncio.get_running_loop().call_soon
    publishing = asyncio.create_task(bus.publish([job]))
    soon(broker.drop_connections)
    assert await publishing == [PublishResult.UNKNOWN]
    assert broker.ready(DISPATCH.name) == 0
    publishing = asyncio.create_task(bus.publish([job]))
    soon(soon, broker.drop_connections)
    assert await publishing == [PublishResult.UNKNOWN]
    assert broker.ready(DISPATCH.name) == 1


async def test_a_cancelled_consumer_begins_again(bus: Bus, broker: MemoryBroker) -> None:
    subscription = await bus.subscribe(DISPATCH.name, prefetch=5)
    await bus.publish([dispatch("a")])
    [first] = await receive(subscription, 1)
    broker.cancel_consumers(DISPATCH.name)
    assert not subscription.live
    [again] = await receive(subscription, 1)
    assert (again.body, again.redelivered, again.epoch > first.epoch) == (b"a", True, True)
    assert subscription.live


async def test_only_what_is_durable_survives_the_broker(bus: Bus, broker: MemoryBroker) -> None:
    classic = Queue("classic", (Binding("ask", "classic"),))
    quorum = Queue("quorum", (Binding("ask", "quorum"),), WORK)
    await bus.declare(Topology((Exchange("ask"),), (classic, quorum)))
    for key in ("classic", "quorum"):
        fleeting = make_message("fleeting", key)._replace(persistent=False)
        await bus.publish([make_message("kept", key), fleeting])
    broker.restart()
    assert [one.message_id for one in broker.peek("classic")] == ["kept"]
    assert [one.message_id for one in broker.peek("quorum")] == ["kept", "fleeting"]


async def test_a_full_queue_that_does_not_refuse_drops_its_oldest(bus: Bus, broker: MemoryBroker) -> None:
    short = Queue("short", (Binding("ask", "job.#"),), {"x-max-length": 2})
    await bus.declare(Topology((Exchange("ask"),), (short,)))
    assert set(await bus.publish(make_messages("abc"))) == {PublishResult.CONFIRMED}
    assert [one.message_id for one in broker.peek("short")] == ["b", "c"]


PLACES = Topology((Exchange("work"),), (Queue("work.own.7f", (Binding("work", "known.#"),)),))
KNOWN = [make_message("1", "known.a", "work"), make_message("2", "known.b", "work")]


def counts(metrics: Metrics, spec: metric_names.MetricSpec) -> dict[LabelValues, float]:
    """The numbers of a metric; of a histogram, how many values it has."""
    (reading,) = (reading for reading in metrics.read() if reading.spec is spec)
    return {**reading.numbers, **{labels: value.values for labels, value in reading.histograms.items()}}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def measured(broker: MemoryBroker, metrics: Metrics) -> AsyncIterator[Bus]:
    bus = MemoryBus(broker, metrics=metrics)
    await bus.start()
    await bus.declare(PLACES)
    yield bus
    await bus.close()


async def test_published_messages_are_counted_by_exchange_and_result(measured: Bus, metrics: Metrics) -> None:
    assert await measured.publish(KNOWN) == [PublishResult.CONFIRMED] * 2
    await measured.publish([KNOWN[0], make_message("4", "nobody", "work")])
    await measured.publish([])
    assert counts(metrics, metric_names.SENT_MESSAGES) == {("work", ""): 3, ("work", "unroutable"): 1}
    assert counts(metrics, metric_names.OPERATION_DURATION) == {("",): 1, ("unroutable",): 1}


@pytest.mark.parametrize("measures_processing", [True, False])
async def test_a_consumer_counts_messages_batches_and_failures(
    measured: Bus, metrics: Metrics, clock: VirtualClock, *, measures_processing: bool
) -> None:
    handled, failures = asyncio.Event(), [OSError("away")]

    async def handle(subscription: Subscription, deliveries: list[Delivery]) -> None:
        if failures:
            raise failures.pop()
        await subscription.ack(deliveries)
        handled.set()

    options: dict[str, Any] = {"own_queue": True, "measures_processing": measures_processing}
    consumer = Consumer("work", measured, "work.own.7f", 10, handle, clock=clock, metrics=metrics, **options)
    await measured.publish(KNOWN)
    await consumer.start()
    while not handled.is_set():
        await clock.advance(1)
    assert counts(metrics, metric_names.CONSUMED_MESSAGES) == {("work.own",): 2}, (
        "an id in the name is no label"
    )
    assert counts(metrics, metric_names.BATCH_SIZE) == {("work.own",): 1}
    if measures_processing:
        once_each = {("work.own", "", ""): 1, ("work.own", "", "OSError"): 1}
        assert counts(metrics, metric_names.PROCESS_DURATION) == once_each
    else:
        assert metric_names.PROCESS_DURATION not in {reading.spec for reading in metrics.read()}
    await consumer.stop()
