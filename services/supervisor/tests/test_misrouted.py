"""Point 3 of supervision: what was told to the supervisor while its queue was gone is told again."""

from collections.abc import Sequence

import pytest
from services.supervisor.tests.event_factory import NOW

from warrener_contracts.messages import Message
from warrener_contracts.topology import (
    DELAY,
    DELAY_LEVELS,
    RETURN,
    STATUS,
    STATUS_QUEUE,
    TOPOLOGY,
    UNROUTABLE_QUEUE,
    dispatch_queue,
)
from warrener_runtime.bus import Delivery, Subscription
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.virtual_clock import VirtualClock
from warrener_store import StoreUnavailable
from warrener_store.memory import MemoryStore
from warrener_store.parked import ParkedMessage
from warrener_supervisor.dead_letters import DeadLetterConsumer, find_missing_queue

NEWS = Message(
    exchange=STATUS,
    routing_key="attempt.succeeded.flights.load",
    body=b"{}",
    content_type="application/cloudevents+json",
    message_id="done",
    type="attempt.succeeded.v1",
    headers={"traceparent": "00-1"},
)


async def next_batch(subscription: Subscription) -> list[Delivery]:
    async for batch in subscription:
        return batch
    raise AssertionError("expected a delivery, got the end")


async def test_3_news_that_found_no_queue_is_published_again_as_it_was_and_not_parked() -> None:
    clock = VirtualClock(NOW)
    broker, store = MemoryBroker(clock), MemoryStore()
    bus = MemoryBus(broker)
    await bus.start()
    await bus.declare(TOPOLOGY)
    broker.delete_queue(STATUS_QUEUE.name)
    await bus.publish([NEWS])
    stray = await bus.subscribe(UNROUTABLE_QUEUE.name, prefetch=10)

    await DeadLetterConsumer(bus, store, clock).handle(stray, await next_batch(stray))

    [again] = await next_batch(await bus.subscribe(STATUS_QUEUE.name, prefetch=10))
    assert (again.routing_key, again.body, again.message_id) == (NEWS.routing_key, NEWS.body, "done")
    assert again.headers["traceparent"] == "00-1"
    assert not await store.parked()
    assert stray.nothing_unacked
    await bus.close()
    broker.stop()


class UnavailableStore(MemoryStore):
    """A store that does not answer while it is away."""

    away = True

    async def park(self, messages: Sequence[ParkedMessage]) -> None:
        if self.away:
            raise StoreUnavailable("away")
        await super().park(messages)


async def test_3_news_is_published_again_once_however_often_the_store_does_not_answer() -> None:
    clock = VirtualClock(NOW)
    broker, store = MemoryBroker(clock), UnavailableStore()
    bus = MemoryBus(broker)
    await bus.start()
    await bus.declare(TOPOLOGY)
    broker.delete_queue(STATUS_QUEUE.name)
    await bus.publish([NEWS, NEWS._replace(exchange=RETURN, routing_key="1s.nobody", message_id="stray")])
    stray = await bus.subscribe(UNROUTABLE_QUEUE.name, prefetch=10)
    batch, bury = await next_batch(stray), DeadLetterConsumer(bus, store, clock)

    for _ in range(3):  # as a Consumer does: the same batch, until it is handled
        with pytest.raises(StoreUnavailable):
            await bury.handle(stray, batch)
    store.away = False
    await bury.handle(stray, batch)

    again = await next_batch(await bus.subscribe(STATUS_QUEUE.name, prefetch=10))
    assert [one.message_id for one in again] == ["done"]
    assert len(await store.parked()) == 1
    assert stray.nothing_unacked
    await bus.close()
    broker.stop()


def test_3_what_died_in_a_queue_is_not_misrouted() -> None:
    gone = Delivery(b"{}", NEWS.routing_key, STATUS, redelivered=False, tag=1, epoch=1)
    assert find_missing_queue(gone) is STATUS_QUEUE
    assert find_missing_queue(gone._replace(headers={"x-death": [{"queue": "warrener.status"}]})) is None
    assert find_missing_queue(gone._replace(exchange="warrener.return")) is None
    assert find_missing_queue(gone._replace(exchange=DELAY, routing_key="2s.default.x")) is None, (
        "no such level"
    )


async def test_13_what_found_no_delay_queue_is_published_again_and_comes_down_it() -> None:
    clock = VirtualClock(NOW)
    broker, store = MemoryBroker(clock), MemoryStore()
    bus = MemoryBus(broker)
    await bus.start()
    await bus.declare(TOPOLOGY.with_queues([dispatch_queue("default")]))
    broker.delete_queue(DELAY_LEVELS[1].queue)
    delayed = [
        NEWS._replace(exchange=DELAY, routing_key="5s.default.x", message_id=f"delayed-{number}")
        for number in range(80)
    ]
    await bus.publish(delayed)
    stray = await bus.subscribe(UNROUTABLE_QUEUE.name, prefetch=100)

    await DeadLetterConsumer(bus, store, clock).handle(stray, await next_batch(stray))

    assert not await store.parked()
    assert stray.nothing_unacked
    assert broker.ready(DELAY_LEVELS[1].queue) == 80
    await clock.advance(5)
    assert broker.ready(dispatch_queue("default").name) == 80
    await bus.close()
    broker.stop()
