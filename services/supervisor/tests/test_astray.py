"""Point 3 of supervision: what was told to the supervisor while its queue was gone is told again."""

from collections.abc import Sequence

import pytest
from services.supervisor.tests.words import NOW

from warrener_contracts.letters import Letter
from warrener_contracts.topology import RETURN, STATUS, STATUS_QUEUE, TOPOLOGY, UNROUTABLE_QUEUE
from warrener_runtime.bus import Delivery, Subscription
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.virtual_clock import VirtualClock
from warrener_store import StoreUnavailable
from warrener_store.memory import MemoryStore
from warrener_store.parked import ParkedMessage
from warrener_supervisor.astray import is_astray
from warrener_supervisor.bury import Bury

NEWS = Letter(
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

    await Bury(bus, store, clock).handle(stray, await next_batch(stray))

    [again] = await next_batch(await bus.subscribe(STATUS_QUEUE.name, prefetch=10))
    assert (again.routing_key, again.body, again.message_id) == (NEWS.routing_key, NEWS.body, "done")
    assert again.headers["traceparent"] == "00-1"
    assert not await store.parked()
    assert stray.empty_handed
    await bus.close()
    broker.stop()


class Outage(MemoryStore):
    """A store that does not answer while it is away."""

    away = True

    async def park(self, messages: Sequence[ParkedMessage]) -> None:
        if self.away:
            raise StoreUnavailable("away")
        await super().park(messages)


async def test_3_news_is_published_again_once_however_often_the_store_does_not_answer() -> None:
    clock = VirtualClock(NOW)
    broker, store = MemoryBroker(clock), Outage()
    bus = MemoryBus(broker)
    await bus.start()
    await bus.declare(TOPOLOGY)
    broker.delete_queue(STATUS_QUEUE.name)
    await bus.publish([NEWS, NEWS._replace(exchange=RETURN, routing_key="1s.nobody", message_id="stray")])
    stray = await bus.subscribe(UNROUTABLE_QUEUE.name, prefetch=10)
    batch, bury = await next_batch(stray), Bury(bus, store, clock)

    for _ in range(3):  # as a Consumer does: the same batch, until it is handled
        with pytest.raises(StoreUnavailable):
            await bury.handle(stray, batch)
    store.away = False
    await bury.handle(stray, batch)

    again = await next_batch(await bus.subscribe(STATUS_QUEUE.name, prefetch=10))
    assert [one.message_id for one in again] == ["done"]
    assert len(await store.parked()) == 1
    assert stray.empty_handed
    await bus.close()
    broker.stop()


def test_3_what_died_in_a_queue_is_not_astray() -> None:
    gone = Delivery(b"{}", NEWS.routing_key, STATUS, redelivered=False, tag=1, epoch=1)
    assert is_astray(gone)
    assert not is_astray(gone._replace(headers={"x-death": [{"queue": "warrener.status"}]}))
    assert not is_astray(gone._replace(exchange="warrener.return"))
