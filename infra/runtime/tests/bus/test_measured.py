"""What a bus counts of what a service publishes, and a consumer of what it receives."""

import asyncio

import pytest
from tests.conformance.bus_rigs import make_message

from warrener_contracts.messages import Message
from warrener_contracts.topology import Binding, Exchange, Queue, Topology
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.bus.port import Subscription
from warrener_runtime.bus.types import Delivery, PublishResult
from warrener_runtime.lifecycle import Consumer
from warrener_runtime.telemetry.metric_names import (
    BATCH_SIZE,
    CONSUMED_MESSAGES,
    OPERATION_DURATION,
    PROCESS_DURATION,
    SENT_MESSAGES,
    MetricSpec,
)
from warrener_runtime.telemetry.metrics import LabelValues, Metrics
from warrener_runtime.virtual_clock import VirtualClock

PLACES = Topology((Exchange("work"),), (Queue("work.own.7f", (Binding("work", "known.#"),)),))


def message(key: str, name: str) -> Message:
    return make_message(name, key, "work")


def numbers(metrics: Metrics, spec: MetricSpec) -> dict[LabelValues, float]:
    (reading,) = (reading for reading in metrics.read() if reading.spec is spec)
    return dict(reading.numbers)


def observations(metrics: Metrics, spec: MetricSpec) -> dict[LabelValues, int]:
    (reading,) = (reading for reading in metrics.read() if reading.spec is spec)
    return {labels: value.values for labels, value in reading.histograms.items()}


async def open_bus(clock: VirtualClock, metrics: Metrics) -> MemoryBus:
    bus = MemoryBus(MemoryBroker(clock), metrics=metrics)
    await bus.start()
    await bus.declare(PLACES)
    return bus


async def test_published_messages_are_counted_by_exchange_and_result() -> None:
    metrics = Metrics()
    bus = await open_bus(VirtualClock(), metrics)
    assert await bus.publish([message("known.a", "1"), message("known.b", "2")]) == [
        PublishResult.CONFIRMED,
        PublishResult.CONFIRMED,
    ]
    await bus.publish([message("known.a", "3"), message("nobody", "4")])
    await bus.publish([])
    assert numbers(metrics, SENT_MESSAGES) == {("work", ""): 3, ("work", "unroutable"): 1}
    assert observations(metrics, OPERATION_DURATION) == {("",): 1, ("unroutable",): 1}
    await bus.close()


@pytest.mark.parametrize("measures_processing", [True, False])
async def test_a_consumer_counts_messages_batches_and_failures(*, measures_processing: bool) -> None:
    metrics, clock, handled = Metrics(), VirtualClock(), asyncio.Event()
    bus = await open_bus(clock, metrics)
    failures = [OSError("away")]

    async def handle(subscription: Subscription, deliveries: list[Delivery]) -> None:
        if failures:
            raise failures.pop()
        await subscription.ack(deliveries)
        handled.set()

    consumer = Consumer(
        "work",
        bus,
        "work.own.7f",
        10,
        handle,
        clock=clock,
        own_queue=True,
        metrics=metrics,
        measures_processing=measures_processing,
    )
    await bus.publish([message("known.a", "1"), message("known.b", "2")])
    await consumer.start()
    while not handled.is_set():
        await clock.advance(1)
    assert numbers(metrics, CONSUMED_MESSAGES) == {("work.own",): 2}, "an id in the name is no label"
    assert observations(metrics, BATCH_SIZE) == {("work.own",): 1}
    if measures_processing:
        assert observations(metrics, PROCESS_DURATION) == {
            ("work.own", "", ""): 1,
            ("work.own", "", "OSError"): 1,
        }
    else:
        assert PROCESS_DURATION not in {reading.spec for reading in metrics.read()}
    await consumer.stop()
    await bus.close()
