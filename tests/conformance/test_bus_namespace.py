"""Two systems on one RabbitMQ."""

from collections.abc import Mapping

import pytest
from tests.conformance.bus_rigs import WITHIN, WORK, Rig, death, make_message, names, receive, until_waiting

from warrener_contracts import topology
from warrener_runtime.bus import Bus, PublishResult

QUEUES = (topology.REQUESTS_QUEUE, topology.DEAD_QUEUE, topology.UNROUTABLE_QUEUE)

pytestmark = pytest.mark.parametrize("rig", ["rabbitmq"], indirect=True)


@pytest.fixture
async def two(rig: Rig) -> Mapping[str, Bus]:
    """A bus of each of two systems, with all of a topology of its own; and one of neither."""
    buses = {space: await rig.bus(space, space) for space in ("warrener", "shop-2")}
    for bus in buses.values():
        await bus.declare(topology.Topology(topology.EXCHANGES, QUEUES))
    return buses


async def test_what_is_requested_of_one_system_reaches_it_and_no_other(two: Mapping[str, Bus]) -> None:
    for space, bus in two.items():
        results = await bus.publish([make_message(f"for {space}", "flights.load", topology.REQUESTS)])
        assert results == [PublishResult.CONFIRMED]
    for space, bus in two.items():
        await until_waiting(bus, topology.REQUESTS_QUEUE.name, 1)
        subscription = await bus.subscribe(topology.REQUESTS_QUEUE.name, prefetch=10)
        [delivery] = await receive(subscription, 1)
        assert (delivery.body, delivery.exchange) == (f"for {space}".encode(), topology.REQUESTS)
        await subscription.ack([delivery])
        assert subscription.live
        assert subscription.has_capacity
        await subscription.stop()

    shop = two["shop-2"]
    subscription = await shop.subscribe(topology.REQUESTS_QUEUE.name, prefetch=1)
    await shop.publish([make_message("straight", topology.REQUESTS_QUEUE.name, "")])
    assert names(await receive(subscription, 1)) == ["straight"], "by the nameless exchange"
    await shop.ping(timeout=WITHIN)
    assert (await two["warrener"].backlog(topology.REQUESTS_QUEUE.name)).waiting == 0


async def test_a_system_keeps_its_dead_letters_by_the_names_that_code_knows(two: Mapping[str, Bus]) -> None:
    shop = two["shop-2"]
    await shop.publish([make_message("bad", "flights.load", topology.REQUESTS)])
    requests = await shop.subscribe(topology.REQUESTS_QUEUE.name, prefetch=10)
    await requests.reject(await receive(requests, 1), requeue=False)
    buried = await shop.subscribe(topology.DEAD_QUEUE.name, prefetch=10)
    [delivery] = await receive(buried, 1)
    assert delivery.exchange == topology.DEAD
    found = {name: death(delivery)[name] for name in ("queue", "exchange", "reason")}
    assert found == {
        "queue": topology.REQUESTS_QUEUE.name,
        "exchange": topology.REQUESTS,
        "reason": "rejected",
    }
    assert delivery.headers["x-first-death-queue"] == topology.REQUESTS_QUEUE.name
    assert (await two["warrener"].backlog(topology.DEAD_QUEUE.name)).waiting == 0


async def test_what_has_no_queue_goes_to_the_alternate_of_its_own_system(two: Mapping[str, Bus]) -> None:
    shop = two["shop-2"]
    messages = [
        make_message("stray", "x", topology.STATUS, mandatory=False),
        make_message("homeless", "x", topology.DISPATCH),
    ]
    assert await shop.publish(messages) == [PublishResult.CONFIRMED, PublishResult.UNROUTABLE]
    found = await shop.subscribe(topology.UNROUTABLE_QUEUE.name, prefetch=10)
    assert [(one.exchange, one.body) for one in await receive(found, 1)] == [(topology.STATUS, b"stray")]
    assert (await two["warrener"].backlog(topology.UNROUTABLE_QUEUE.name)).waiting == 0


async def test_exchanges_of_others_keep_their_names(two: Mapping[str, Bus], rig: Rig) -> None:
    outside = await rig.bus("outside")
    await outside.declare(topology.Topology((topology.Exchange("orders"),), ()))
    shop = two["shop-2"]
    there, absent = topology.Binding("orders", "#"), topology.Binding("nowhere", "#")
    triggers = topology.Queue("warrener.triggers", (there, absent), WORK)
    assert await shop.bind(triggers) == [absent]
    subscription = await shop.subscribe("warrener.triggers", prefetch=10)
    await outside.publish([make_message("an order", "new", "orders")])
    assert [(one.exchange, one.body) for one in await receive(subscription, 1)] == [("orders", b"an order")]
    await shop.unbind("warrener.triggers", [there])
    assert await outside.publish([make_message("another", "new", "orders")]) == [PublishResult.UNROUTABLE]
