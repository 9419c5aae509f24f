"""A frozen node of a cluster stops nobody who is connected to a healthy one.

While the others have not noticed it (for `net_ticktime`), RabbitMQ 3.10 answers no declaration that writes,
not even that of a binding that exists.
"""

import asyncio
from contextlib import AsyncExitStack

from tests.conformance.bus_rigs import (
    EXCHANGES,
    JOBS,
    WITHIN,
    make_message,
    make_messages,
    names,
    publish_once_routable,
    receive,
    receive_all,
)
from tests.faults.tcp_proxy import TcpProxy
from tests.servers.cluster import RabbitMQCluster

from warrener_contracts.topology import Binding, Queue, Topology
from warrener_runtime.bus import open_bus
from warrener_runtime.bus.rabbitmq.lean import connect_lean
from warrener_runtime.bus.rabbitmq.topology import DeclaredTopology
from warrener_runtime.clock import SystemClock
from warrener_runtime.publishing import publish_all


async def test_17_work_goes_on_after_reconnects_and_renewals_while_a_node_is_frozen(
    rabbitmq_cluster: RabbitMQCluster, closing: AsyncExitStack
) -> None:
    healthy = rabbitmq_cluster.nodes[0]
    proxy = TcpProxy(healthy.port)
    await proxy.start()
    closing.push_async_callback(proxy.stop)
    bus = open_bus(f"amqp://guest:guest@127.0.0.1:{proxy.port}/", name="steady")
    closing.push_async_callback(bus.close)
    await bus.start()
    await bus.declare(Topology(EXCHANGES, (JOBS,)))
    subscription = await bus.subscribe("jobs", prefetch=10)
    await publish_all(bus, make_messages("a"), clock=SystemClock())
    await receive_all(subscription, {"a"})
    await asyncio.to_thread(rabbitmq_cluster.nodes[2].pause)
    try:
        await proxy.reset()
        await publish_all(bus, make_messages("b"), clock=SystemClock())
        await receive_all(subscription, {"b"})
        subscription.resubscribe()
        await publish_all(bus, make_messages("c"), clock=SystemClock())
        await receive_all(subscription, {"c"})
        unnoticed = await asyncio.to_thread(
            healthy.evaluate, f"lists:member('{rabbitmq_cluster.nodes[2].name}', nodes())"
        )
        assert unnoticed == "true", "the work went on before anybody noticed the frozen node"
    finally:
        await asyncio.to_thread(rabbitmq_cluster.nodes[2].resume)


async def test_17_an_exclusive_queue_has_a_fresh_name_on_the_next_connection(
    vhost_url: str, closing: AsyncExitStack
) -> None:
    lost, following = [await connect_lean(vhost_url, "test") for _ in range(2)]
    for client in (lost, following):
        closing.push_async_callback(client.close)
    declared, queue = DeclaredTopology(), Queue("own", (Binding("amq.direct", "own"),), exclusive=True)
    declared.keep(Topology((), (queue,)))
    await declared.declare_exclusive(lost, [queue])
    assert declared.broker_name("own") == "own"
    await declared.ensure_queue(following, "own", look=True)  # the broker still holds the other connection's
    assert declared.broker_name("own") != "own"
    assert not await following.missing((), [declared.broker_name("own")])


async def test_an_exclusive_queue_is_one_though_two_declare_it_after_a_reconnect(
    vhost_url: str, closing: AsyncExitStack
) -> None:
    lost, following = [await connect_lean(vhost_url, "test") for _ in range(2)]
    for client in (lost, following):
        closing.push_async_callback(client.close)
    declared, queue = DeclaredTopology(), Queue("own", (Binding("amq.direct", "own"),), exclusive=True)
    declared.keep(Topology((), (queue,)))
    await declared.declare_exclusive(lost, [queue])

    async def declare_again() -> str:
        await declared.declare_exclusive(following, [queue])
        return declared.broker_name("own")

    names_used = await asyncio.gather(declare_again(), declare_again())
    assert len(set(names_used)) == 1, "a second one would be bound too, and keep what nobody consumes"


async def test_17_a_lost_binding_of_an_idle_queue_comes_back(vhost_url: str, closing: AsyncExitStack) -> None:
    bus = open_bus(vhost_url, name="idle")
    closing.push_async_callback(bus.close)
    await bus.start()
    await bus.declare(Topology(EXCHANGES, (JOBS,)))
    subscription = await bus.subscribe("jobs", prefetch=10)
    await bus.unbind("jobs", JOBS.bindings)
    subscription.resubscribe()  # as an idle consumer does
    async with asyncio.timeout(WITHIN):
        await publish_once_routable(bus, make_message("a"))
    assert names(await receive(subscription, 1)) == ["a"]
