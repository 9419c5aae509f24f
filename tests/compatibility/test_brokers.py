"""The whole topology on the broker that the tests run on: 3.10 to 4.3, by WARRENER_TEST_SERVERS.

`make test-brokers` runs these, and the bus's conformance suite, on RabbitMQ 4.0 and 4.3 too.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import uuid4

import pytest
from tests.servers.kinds import RabbitMQServer

from warrener_contracts.messages import Message
from warrener_contracts.topology import DEAD_QUEUE, TOPOLOGY, UNROUTABLE_QUEUE, control_queue, dispatch_queue
from warrener_runtime.bus import Bus, Delivery, PublishResult, Subscription, TopologyMismatch, open_bus
from warrener_store.installation import ForeignBroker, claim_namespace
from warrener_store.memory import MemoryStore

WITHIN = 60.0  # seconds for what must happen; a delay level takes one
EVERYTHING = TOPOLOGY.with_queues([dispatch_queue("etl")])


@pytest.fixture
async def bus(vhost_url: str) -> AsyncIterator[Bus]:
    """A bus on which everything is declared."""
    one = open_bus(vhost_url, name="compatibility")
    await one.start()
    await one.declare(EVERYTHING)
    yield one
    await one.close()


async def test_the_broker_is_one_of_those_we_support(broker: RabbitMQServer) -> None:
    assert broker.version().startswith(("3.1", "4."))


async def test_everything_can_be_declared_again_by_another(bus: Bus, vhost_url: str) -> None:
    other = open_bus(vhost_url, name="another")
    await other.start()
    try:
        await other.declare(EVERYTHING.with_queues([control_queue("agent-1", ["etl"])]))
        await bus.declare(EVERYTHING)
    finally:
        await other.close()


async def test_a_drift_of_one_argument_is_noticed(bus: Bus) -> None:
    etl = dispatch_queue("etl")
    other = replace(etl, arguments={**etl.arguments, "x-dead-letter-routing-key": "elsewhere"})
    with pytest.raises(TopologyMismatch, match=r"warrener\.queue\.etl"):
        await bus.declare(TOPOLOGY.with_queues([other]))


async def test_every_queue_of_work_is_a_quorum_queue(
    bus: Bus, vhost_url: str, broker: RabbitMQServer
) -> None:
    vhost = vhost_url.rpartition("/")[2]
    listed = broker.evaluate(
        f'[binary_to_list(element(4, amqqueue:get_name(Q))) || Q <- rabbit_amqqueue:list(<<"{vhost}">>), '
        "amqqueue:get_type(Q) =:= rabbit_quorum_queue]"
    )
    for queue in EVERYTHING.queues:
        assert (f'"{queue.name}"' in listed) == (queue.arguments["x-queue-type"] == "quorum"), listed


async def test_a_dispatch_reaches_its_queue_or_comes_back(bus: Bus) -> None:
    served, unserved = (
        make_message("1", "warrener.dispatch", "etl.load"),
        make_message("2", "warrener.dispatch", "gpu.load"),
    )
    assert await bus.publish([served, unserved]) == [PublishResult.CONFIRMED, PublishResult.UNROUTABLE]
    work = await bus.subscribe("warrener.queue.etl", prefetch=10)
    (arrived,) = await receive(work, 1)
    assert arrived.body == b"1"
    await work.ack([arrived])


async def test_a_delayed_message_comes_back_to_its_queue(bus: Bus) -> None:
    assert await bus.publish([make_message("1", "warrener.delay", "1s.etl.load")]) == [
        PublishResult.CONFIRMED
    ]
    work = await bus.subscribe("warrener.queue.etl", prefetch=10)
    (arrived,) = await receive(work, 1)
    assert arrived.body == b"1"


async def test_what_an_agent_gives_up_is_buried(bus: Bus) -> None:
    assert await bus.publish([make_message("1", "warrener.dispatch", "etl.load")]) == [
        PublishResult.CONFIRMED
    ]
    work = await bus.subscribe("warrener.queue.etl", prefetch=10)
    await work.reject(await receive(work, 1), requeue=False)
    dead = await bus.subscribe(DEAD_QUEUE.name, prefetch=10)
    (buried,) = await receive(dead, 1)
    assert buried.body == b"1"


async def test_a_message_given_back_for_ever_ends_with_the_dead(bus: Bus) -> None:
    assert await bus.publish([make_message("poison", "warrener.dispatch", "etl.load")]) == [
        PublishResult.CONFIRMED
    ]
    work = await bus.subscribe("warrener.queue.etl", prefetch=1)
    dead = await bus.subscribe(DEAD_QUEUE.name, prefetch=1)
    burial = asyncio.create_task(receive(dead, 1))
    returns = asyncio.create_task(_give_back_for_ever(work))
    (buried,) = await burial
    returns.cancel()
    await asyncio.wait({returns})
    assert buried.body == b"poison"


async def test_a_message_of_an_unknown_delay_level_is_stored(bus: Bus) -> None:
    assert await bus.publish([make_message("1", "warrener.delay", "no-such-level.etl.load")]) == [
        PublishResult.CONFIRMED
    ]
    unroutable = await bus.subscribe(UNROUTABLE_QUEUE.name, prefetch=10)
    (parked,) = await receive(unroutable, 1)
    assert parked.body == b"1"


def make_message(name: str, exchange: str, key: str) -> Message:
    """A message of no meaning."""
    return Message(exchange, key, name.encode(), "text/plain", name, "test", {}, mandatory=True)


async def receive(subscription: Subscription, count: int) -> list[Delivery]:
    """The next `count` deliveries."""
    received: list[Delivery] = []
    async with asyncio.timeout(WITHIN):
        while len(received) < count:
            received += await anext(aiter(subscription))
    return received


async def _give_back_for_ever(work: Subscription) -> None:
    async for batch in work:
        await work.reject(batch, requeue=True)


async def test_a_namespace_that_belongs_to_another_store_is_refused_with_its_id(
    bus: Bus, vhost_url: str
) -> None:
    ours, theirs = MemoryStore(), MemoryStore()
    mine, other = uuid4(), uuid4()
    stranger = open_bus(vhost_url, name="stranger")
    await stranger.start()
    try:
        for _ in range(2):
            await claim_namespace(
                ours, bus.declare, candidate=mine, refused=TopologyMismatch, namespace="warrener"
            )
        with pytest.raises(ForeignBroker, match=rf"{other.hex}, got installation {mine.hex[:4]}"):
            await claim_namespace(
                theirs, stranger.declare, candidate=other, refused=TopologyMismatch, namespace="warrener"
            )
    finally:
        await stranger.close()
