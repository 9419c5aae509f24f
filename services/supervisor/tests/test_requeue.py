"""Parked messages are sent in again without a loss, whatever happens in between."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

import pytest
from tests.store_rows import parked_message

from warrener_contracts.events import ParkedRequeueRequested, ParkedRequeueRequestedData
from warrener_contracts.topology import REQUESTS_QUEUE, TOPOLOGY, TRIGGERS_QUEUE
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.bus.types import Delivery
from warrener_store import StoreUnavailable
from warrener_store.memory import MemoryStore
from warrener_store.parked.rows import ParkedMessage
from warrener_supervisor.dead_letters import to_parked_message
from warrener_supervisor.requeue import ParkedMessageRequeuer

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Forgetful(MemoryStore):
    """A store that does not answer when it is to forget."""

    away = True

    async def forget_parked(self, messages: Sequence[ParkedMessage]) -> None:
        if self.away:
            raise StoreUnavailable("away")
        await super().forget_parked(messages)


@pytest.fixture
async def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
async def bus(broker: MemoryBroker) -> AsyncIterator[MemoryBus]:
    one = MemoryBus(broker)
    await one.start()
    await one.declare(TOPOLOGY)
    yield one
    await one.close()


def message(name: str, queue: str = REQUESTS_QUEUE.name, detail: str = "why") -> ParkedMessage:
    return parked_message(
        name,
        queue=queue,
        reason="unknown_job_type",
        detail=detail,
        content_type="application/cloudevents+json",
        body=name.encode(),
        parked_at=NOW,
    )


def requeue(*ids: str) -> ParkedRequeueRequested:
    return ParkedRequeueRequested(id="1", source="test", data=ParkedRequeueRequestedData(ids=ids, by="ann"))


def waiting(broker: MemoryBroker, queue: str = REQUESTS_QUEUE.name) -> list[str]:
    return [one.body.decode() for one in broker.peek(queue)]


async def test_what_is_confirmed_is_forgotten_and_no_other(bus: MemoryBus, broker: MemoryBroker) -> None:
    store = MemoryStore()
    await store.park([message("a"), message("b"), message("nowhere", "warrener.queue.gone")])
    await ParkedMessageRequeuer(bus, store).carry_out([requeue("a", "nowhere", "unknown", "a")])
    assert waiting(broker) == ["a"]
    assert {one.parked_id for one in await store.parked()} == {"b", "nowhere"}


async def test_a_supervisor_that_dies_before_it_forgets_sends_again(
    bus: MemoryBus, broker: MemoryBroker
) -> None:
    store = Forgetful()
    await store.park([message("a")])
    with pytest.raises(StoreUnavailable):
        await ParkedMessageRequeuer(bus, store).carry_out([requeue("a")])
    store.away = False
    await ParkedMessageRequeuer(bus, store).carry_out([requeue("a")])
    assert waiting(broker) == ["a", "a"]
    assert not await store.parked()


async def test_of_what_is_cut_the_beginning_is_not_sent(bus: MemoryBus, broker: MemoryBroker) -> None:
    store = MemoryStore()
    await store.park([message("a", detail="the first 7 of 9 bytes are kept (SHA-256 00); too large")])
    await ParkedMessageRequeuer(bus, store).carry_out([requeue("a")])
    assert waiting(broker) == []
    assert len(await store.parked()) == 1


async def test_a_message_that_died_in_a_queue_goes_straight_there_and_shows_how_it_came(
    bus: MemoryBus, broker: MemoryBroker
) -> None:
    store = MemoryStore()
    death = {
        "queue": TRIGGERS_QUEUE.name,
        "reason": "rejected",
        "exchange": "orders",
        "routing-keys": ["order.new"],
    }
    died = Delivery(
        body=b"an order",
        routing_key="dead.triggers",
        exchange="warrener.dead",
        redelivered=False,
        tag=1,
        epoch=1,
        message_id="order 7",
        headers={"x-death": [death], "traceparent": "00-1"},
    )
    parked = to_parked_message(died, NOW)
    assert (parked.exchange, parked.routing_key, parked.message_id) == ("orders", "order.new", "order 7")
    await store.park([parked])
    await ParkedMessageRequeuer(bus, store).carry_out([requeue(parked.parked_id)])
    [sent] = broker.peek(TRIGGERS_QUEUE.name)
    assert sent.message_id == "order 7"
    assert sent.headers == {
        "traceparent": "00-1",
        "warrener-exchange": "orders",
        "warrener-routing-key": "order.new",
        "warrener-message-id": "order 7",
    }
