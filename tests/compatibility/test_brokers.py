"""The whole topology on the broker that the tests run on: 3.10 to 4.3, by WARRENER_TEST_SERVERS.

`make test-brokers` runs these, and the bus's conformance suite, on RabbitMQ 4.0 and 4.3 too.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from uuid import uuid4

import pytest
from tests.conformance.bus_rigs import make_message, names, receive

from warrener_contracts import topology
from warrener_runtime.bus import Bus, PublishResult, TopologyMismatch, open_bus
from warrener_store.installation import ForeignBroker, claim_namespace
from warrener_store.memory import MemoryStore

ETL = topology.dispatch_queue("etl")
EVERYTHING = topology.TOPOLOGY.with_queues([ETL])


@asynccontextmanager
async def opened_bus(url: str) -> AsyncGenerator[Bus]:
    one = open_bus(url, name="compatibility")
    await one.start()
    try:
        yield one
    finally:
        await one.close()


@pytest.fixture
async def bus(vhost_url: str) -> AsyncIterator[Bus]:
    """A bus on which everything is declared."""
    async with opened_bus(vhost_url) as one:
        await one.declare(EVERYTHING)
        yield one


async def test_everything_can_be_declared_again_by_another(bus: Bus, vhost_url: str) -> None:
    async with opened_bus(vhost_url) as other:
        await other.declare(EVERYTHING.with_queues([topology.control_queue("agent-1", ["etl"])]))
        await bus.declare(EVERYTHING)


async def test_a_drift_of_one_argument_is_noticed(bus: Bus) -> None:
    other = replace(ETL, arguments={**ETL.arguments, "x-dead-letter-routing-key": "elsewhere"})
    with pytest.raises(TopologyMismatch, match=r"warrener\.queue\.etl"):
        await bus.declare(topology.TOPOLOGY.with_queues([other]), verify=True)


@pytest.mark.parametrize(
    ("exchange", "key", "queue"),
    [
        (topology.DISPATCH, "etl.load", ETL.name),
        (topology.DELAY, "1s.etl.load", ETL.name),
        (topology.DELAY, "no-such-level.etl.load", topology.UNROUTABLE_QUEUE.name),
    ],
)
async def test_a_message_reaches_its_queue(bus: Bus, exchange: str, key: str, queue: str) -> None:
    assert await bus.publish([make_message("1", key, exchange)]) == [PublishResult.CONFIRMED]
    subscription = await bus.subscribe(queue, prefetch=10)
    arrived = await receive(subscription, 1)
    assert names(arrived) == ["1"]
    await subscription.ack(arrived)


async def test_a_dispatch_to_a_queue_that_there_is_not_comes_back(bus: Bus) -> None:
    assert await bus.publish([make_message("2", "gpu.load", topology.DISPATCH)]) == [PublishResult.UNROUTABLE]


@pytest.mark.parametrize("requeue", [False, True], ids=["given up", "given back again and again"])
async def test_what_agents_do_not_take_is_buried(bus: Bus, *, requeue: bool) -> None:
    assert await bus.publish([make_message("poison", "etl.load", topology.DISPATCH)]) == [
        PublishResult.CONFIRMED
    ]
    work = await bus.subscribe(ETL.name, prefetch=1)

    async def reject_all() -> None:
        async for batch in work:
            await work.reject(batch, requeue=requeue)

    rejecting = asyncio.create_task(reject_all())
    assert names(await receive(await bus.subscribe(topology.DEAD_QUEUE.name, prefetch=1), 1)) == ["poison"]
    rejecting.cancel()
    await asyncio.wait({rejecting})


async def test_a_namespace_that_belongs_to_another_store_is_refused_with_its_id(
    bus: Bus, vhost_url: str
) -> None:
    claim = partial(claim_namespace, refused=TopologyMismatch, namespace="warrener")
    ours, mine, other = MemoryStore(), uuid4(), uuid4()
    for _ in range(2):
        await claim(ours, bus.claim, candidate=mine)
    refusal = rf"{other.hex}, got installation {mine.hex[:4]}"
    async with opened_bus(vhost_url) as stranger:
        with pytest.raises(ForeignBroker, match=refusal):
            await claim(MemoryStore(), stranger.claim, candidate=other)
