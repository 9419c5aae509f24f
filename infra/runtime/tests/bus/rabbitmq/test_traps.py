"""The traps of RabbitMQ and of its clients, each on a real broker and named after what it catches.

Each was seen to happen with the clients as they are, before this bus was written.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import cast

import aiormq
import pytest
from tests.conformance import bus_rigs
from tests.faults.tcp_proxy import TcpProxy
from tests.servers.cluster import RabbitMQCluster
from tests.servers.kinds import RabbitMQServer

from warrener_contracts.topology import Binding, Queue, Topology
from warrener_devservers.process import free_block
from warrener_runtime.bus import Bus, BusCredentialsRefused, BusUnreachable, Delivery, PublishResult, open_bus
from warrener_runtime.bus.rabbitmq import channels
from warrener_runtime.bus.rabbitmq.channels import AckPlan
from warrener_runtime.bus.rabbitmq.client import RabbitClient, connect_rabbit
from warrener_runtime.bus.rabbitmq.consumer import RabbitSubscription
from warrener_runtime.bus.rabbitmq.topology import DeclaredTopology
from warrener_runtime.clock import SystemClock
from warrener_runtime.lifecycle.listener import Listener
from warrener_runtime.publishing import publish_all

EVERYTHING = Topology(bus_rigs.EXCHANGES, (bus_rigs.JOBS, bus_rigs.BURIED))


async def connected(url: str, closing: AsyncExitStack) -> Bus:
    bus = open_bus(url, name="trapped")
    closing.push_async_callback(bus.close)
    async with asyncio.timeout(bus_rigs.WITHIN):
        await bus.start()
        await bus.declare(EVERYTHING)
    return bus


@pytest.fixture
async def bus(vhost_url: str, closing: AsyncExitStack) -> Bus:
    return await connected(vhost_url, closing)


@pytest.fixture
async def proxy(broker: RabbitMQServer) -> AsyncIterator[TcpProxy]:
    proxy = TcpProxy(broker.port)
    await proxy.start()
    yield proxy
    await proxy.stop()


@pytest.fixture
async def closing() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


def through(proxy: TcpProxy, vhost_url: str, heartbeat: int = 1) -> str:
    vhost = vhost_url.rpartition("/")[2]
    return f"amqp://guest:guest@127.0.0.1:{proxy.port}/{vhost}?heartbeat={heartbeat}"


class TestPublishTimeout:
    """The client's own timeout covers neither the wait for a connection nor a stalled broker."""

    async def test_it_ends_in_a_stalled_broker(
        self, own_rabbitmq: RabbitMQServer, closing: AsyncExitStack
    ) -> None:
        bus = await connected(f"{own_rabbitmq.url}?heartbeat=600", closing)  # which ends nothing here
        subscription = await bus.subscribe("jobs", prefetch=10)
        own_rabbitmq.pause()
        try:
            async with asyncio.timeout(bus_rigs.WITHIN):
                assert (
                    await bus.publish(bus_rigs.make_messages("ab"), timeout=0.5)
                    == [PublishResult.UNKNOWN] * 2
                )
        finally:
            own_rabbitmq.resume()
        await publish_all(bus, bus_rigs.make_messages("cd"), clock=SystemClock())
        assert set(bus_rigs.names(await bus_rigs.receive_all(subscription, {"c", "d"}))) <= set("abcd")

    async def test_it_ends_where_there_is_no_connection(
        self, proxy: TcpProxy, vhost_url: str, closing: AsyncExitStack
    ) -> None:
        bus = await connected(through(proxy, vhost_url), closing)
        await proxy.stop()
        async with asyncio.timeout(bus_rigs.WITHIN):
            assert await bus.publish(bus_rigs.make_messages("a"), timeout=0.5) == [PublishResult.UNKNOWN]
            with pytest.raises(BusUnreachable):
                await bus.ping(timeout=0.5)
        await proxy.start()
        async with asyncio.timeout(bus_rigs.WITHIN):
            await publish_all(bus, bus_rigs.make_messages("b"), clock=SystemClock())
            await bus.ping(timeout=bus_rigs.WITHIN)


class TestDeadPeer:
    """aiormq reports a dead peer by CancelledError, and only after (heartbeat + 1) * 3 seconds."""

    async def test_a_half_open_socket_is_noticed_and_nobody_is_cancelled(
        self, proxy: TcpProxy, vhost_url: str, closing: AsyncExitStack
    ) -> None:
        # The broker, too, drops a peer that is silent for two heartbeats: a busy machine is for seconds.
        bus = await connected(through(proxy, vhost_url, heartbeat=5), closing)
        subscription = await bus.subscribe("jobs", prefetch=10)
        received: asyncio.Queue[Delivery] = asyncio.Queue()
        await bus.declare(Topology((), (Queue("ear", (Binding("ask", "ear"),)),)))
        listening = Listener(bus, "ear", received.put, SystemClock())
        await listening.start()
        await bus.publish(bus_rigs.make_messages("a"))
        held = await bus_rigs.receive(subscription, 1)
        proxy.blackhole()
        async with asyncio.timeout(bus_rigs.WITHIN):
            # A CancelledError would end this test.
            results = await bus.publish(bus_rigs.make_messages("b"), timeout=600)
        assert results == [PublishResult.UNKNOWN]
        await subscription.ack(held)  # into the void, and no harm
        await publish_all(
            bus, [bus_rigs.make_message("c"), bus_rigs.make_message("d", "ear")], clock=SystemClock()
        )
        assert {"a", "c"} <= set(bus_rigs.names(await bus_rigs.receive_all(subscription, {"a", "c"})))
        async with asyncio.timeout(bus_rigs.WITHIN):
            assert (await received.get()).body == b"d"
        assert subscription.live
        assert listening.epoch is not None

    async def test_a_consumer_outlives_a_renewal_that_nobody_answers(
        self, proxy: TcpProxy, vhost_url: str, closing: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(channels, "RPC_SECONDS", 0.5)  # long before a heartbeat
        bus = await connected(through(proxy, vhost_url, heartbeat=5), closing)
        subscription = await bus.subscribe("jobs", prefetch=10)
        proxy.blackhole()
        subscription.resubscribe()
        await publish_all(bus, bus_rigs.make_messages("a"), clock=SystemClock())
        assert set(bus_rigs.names(await bus_rigs.receive_all(subscription, {"a"}))) == {"a"}
        assert subscription.live

    async def test_who_is_really_cancelled_is_cancelled(
        self, proxy: TcpProxy, vhost_url: str, closing: AsyncExitStack
    ) -> None:
        bus = await connected(through(proxy, vhost_url, heartbeat=10), closing)
        await bus.publish(bus_rigs.make_messages("a"))
        proxy.blackhole()
        publishing = asyncio.create_task(bus.publish(bus_rigs.make_messages("b"), timeout=600))
        pinging = asyncio.create_task(bus.ping(timeout=600))
        await asyncio.wait({publishing, pinging}, timeout=0.2)
        publishing.cancel()
        pinging.cancel()
        async with asyncio.timeout(bus_rigs.WITHIN):
            await asyncio.wait({publishing, pinging})
        assert publishing.cancelled()
        assert pinging.cancelled()


class TestChannelLoss:
    """One protocol error closes a channel; in the clients as they are, all that runs on it dies with it."""

    async def test_it_cancels_no_executor_and_harms_no_neighbour(self, bus: Bus) -> None:
        await bus.declare(Topology((), (Queue("other", (Binding("ask", "other"),), bus_rigs.WORK),)))
        subscription = cast("RabbitSubscription", await bus.subscribe("jobs", prefetch=10))
        neighbour = await bus.subscribe("other", prefetch=10)
        await bus.publish([bus_rigs.make_message("job"), bus_rigs.make_message("calm", "other")])
        [job] = await bus_rigs.receive(subscription, 1)
        [calm] = await bus_rigs.receive(neighbour, 1)
        may_end = asyncio.Event()
        executor = asyncio.create_task(may_end.wait())
        channel = subscription._session.channel
        assert channel is not None
        await channel.ack(AckPlan(None, [4711]))  # PRECONDITION_FAILED - unknown delivery tag
        [again] = await bus_rigs.receive(subscription, 1)
        assert (again.body, again.redelivered, again.epoch) == (b"job", True, job.epoch + 1)
        assert not executor.done()
        may_end.set()
        assert await executor
        await subscription.ack([job])  # what the executor got; passed over
        await subscription.ack([again])
        await neighbour.ack([calm])
        await bus.publish([bus_rigs.make_message("more", "other")])
        [more] = await bus_rigs.receive(neighbour, 1)
        assert more.epoch == calm.epoch

    async def test_publishing_to_a_deleted_exchange_concerns_its_messages_alone(
        self, bus: Bus, vhost_url: str
    ) -> None:
        await bus.publish([bus_rigs.make_message("known", "x", "deleted")])
        async with aiormq.connect(vhost_url) as connection:
            await (await connection.channel()).exchange_delete("deleted")
        results = await bus.publish([bus_rigs.make_message("gone", "x", "deleted")])
        await publish_all(bus, bus_rigs.make_messages("a"), clock=SystemClock())
        assert results == [PublishResult.UNROUTABLE]


class TestLostConsumers:
    """Consumers that the broker ended, and that consume again by themselves."""

    @pytest.fixture
    def hasty(self, broker: RabbitMQServer) -> Iterator[None]:
        """A broker that gives a consumer a second."""
        broker.evaluate(
            "application:set_env(rabbit, consumer_timeout, 1000),"
            "application:set_env(rabbit, channel_tick_interval, 200)"
        )
        yield
        broker.evaluate(
            "application:set_env(rabbit, consumer_timeout, 1800000),"
            "application:set_env(rabbit, channel_tick_interval, 60000)"
        )

    @pytest.mark.usefixtures("hasty")
    async def test_a_consumer_timeout_redelivers_and_consuming_goes_on(
        self, vhost_url: str, closing: AsyncExitStack
    ) -> None:
        bus = await connected(vhost_url, closing)
        subscription = await bus.subscribe("jobs", prefetch=1)
        await bus.publish(bus_rigs.make_messages("ab"))
        [slow] = await bus_rigs.receive(subscription, 1)
        [again] = await bus_rigs.receive(subscription, 1)  # the broker lost its patience
        assert (again.body, again.redelivered) == (b"a", True)
        await subscription.ack([slow])
        await subscription.ack([again])
        # If that took a second, it comes once more.
        assert set(bus_rigs.names(await bus_rigs.receive_all(subscription, {"b"}))) <= {"a", "b"}


class TestMemoryAlarm:
    """A blocked connection is not read, acknowledgements on it wait, and ping says all is well."""

    async def test_publishing_is_uncertain_and_consuming_goes_on(
        self, bus: Bus, broker: RabbitMQServer
    ) -> None:
        await bus.publish(bus_rigs.make_messages("abc"))
        subscription = await bus.subscribe("jobs", prefetch=1)
        broker.evaluate("vm_memory_monitor:set_vm_memory_high_watermark(0.0)")
        try:
            async with asyncio.timeout(bus_rigs.WITHIN):  # the alarm takes a moment to reach the connection
                while await bus.publish(bus_rigs.make_messages("d"), timeout=1) != [PublishResult.UNKNOWN]:
                    pass
                while await _answers(bus):
                    pass
            for name in "abc":
                [delivery] = await bus_rigs.receive(subscription, 1)
                assert delivery.body == name.encode()
                await subscription.ack([delivery])  # one at a time: the next comes because this one arrived
            assert not await _answers(bus)
        finally:
            broker.evaluate("vm_memory_monitor:set_vm_memory_high_watermark(0.4)")
        async with asyncio.timeout(bus_rigs.WITHIN):
            await publish_all(bus, bus_rigs.make_messages("e"), clock=SystemClock())
            await bus.ping(timeout=bus_rigs.WITHIN)
        assert set(bus_rigs.names(await bus_rigs.receive_all(subscription, {"e"}))) <= {"d", "e"}


async def _answers(bus: Bus) -> bool:
    try:
        await bus.ping(timeout=0.5)
    except BusUnreachable:
        return False
    return True


class TestConnecting:
    """Fail fast where waiting is of no use, and only there."""

    async def test_a_wrong_password_and_a_missing_virtual_host_fail_at_once(self, vhost_url: str) -> None:
        urls = {"guest": vhost_url.replace("guest:guest", "guest:wrong"), "missing": f"{vhost_url}-missing"}
        for reason, url in urls.items():
            async with asyncio.timeout(bus_rigs.WITHIN):
                with pytest.raises(BusCredentialsRefused, match=reason):
                    await open_bus(url, name="stranger").start()

    async def test_a_broker_that_is_not_there_is_waited_for(
        self, proxy: TcpProxy, vhost_url: str, closing: AsyncExitStack
    ) -> None:
        await proxy.stop()
        bus = open_bus(through(proxy, vhost_url), name="early")
        closing.push_async_callback(bus.close)
        starting = asyncio.create_task(bus.start())
        await asyncio.wait({starting}, timeout=0.5)
        assert not starting.done()
        await proxy.start()
        async with asyncio.timeout(bus_rigs.WITHIN):
            await starting
            await bus.ping()


class TestSeveralHosts:
    """A node that is down refuses a connection, and a frozen one accepts it and never answers."""

    async def test_16_the_node_that_answers_is_found_beside_a_silent_and_a_dead_one(
        self, broker: RabbitMQServer, vhost_url: str, closing: AsyncExitStack
    ) -> None:
        silent = socket.create_server(("127.0.0.1", 0))
        closing.callback(silent.close)
        ports = silent.getsockname()[1], free_block((0,)), broker.port
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        bus = await connected(f"amqp://guest:guest@{hosts}/{vhost_url.rpartition('/')[2]}", closing)
        await publish_all(bus, bus_rigs.make_messages("a"), clock=SystemClock())
        assert bus_rigs.names(await bus_rigs.receive(await bus.subscribe("jobs", prefetch=10), 1)) == ["a"]


class TestKilledBroker:
    """With at-most-once dead-lettering, up to 2740 of 3000 messages were lost here; with ours none."""

    async def test_what_is_in_a_delay_queue_survives_kill_9(
        self, own_rabbitmq: RabbitMQServer, closing: AsyncExitStack
    ) -> None:
        arguments = {**bus_rigs.dead_lettering_to("return"), "x-message-ttl": 1000}
        bus = await connected(own_rabbitmq.url, closing)
        await bus.declare(Topology((), (Queue("delay", (Binding("wait", "short.#"),), arguments),)))
        subscription = await bus.subscribe("jobs", prefetch=50)
        delayed = [bus_rigs.make_message(str(n), "short.job.x", "wait") for n in range(1000)]
        await publish_all(bus, delayed, clock=SystemClock())
        some = await bus_rigs.receive_all(subscription, {"0"})  # they begin to fall
        await asyncio.to_thread(own_rabbitmq.kill)
        await asyncio.to_thread(own_rabbitmq.start)
        wanted = {str(n) for n in range(1000)} - set(bus_rigs.names(some))
        await bus_rigs.receive_all(subscription, wanted)
        assert subscription.live


# A frozen node of a cluster stops nobody who is connected to a healthy one. While the others have not noticed
# it (for `net_ticktime`), RabbitMQ 3.10 answers no declaration that writes, even of a binding that exists.


async def test_17_work_goes_on_after_reconnects_and_renewals_while_a_node_is_frozen(
    rabbitmq_cluster: RabbitMQCluster, closing: AsyncExitStack
) -> None:
    healthy = rabbitmq_cluster.nodes[0]
    proxy = TcpProxy(healthy.port)
    await proxy.start()
    closing.push_async_callback(proxy.stop)
    bus = await connected(f"amqp://guest:guest@127.0.0.1:{proxy.port}/", closing)
    subscription = await bus.subscribe("jobs", prefetch=10)
    await publish_all(bus, bus_rigs.make_messages("a"), clock=SystemClock())
    await bus_rigs.receive_all(subscription, {"a"})
    await asyncio.to_thread(rabbitmq_cluster.nodes[2].pause)
    try:
        await proxy.reset()
        await publish_all(bus, bus_rigs.make_messages("b"), clock=SystemClock())
        await bus_rigs.receive_all(subscription, {"b"})
        subscription.resubscribe()
        await publish_all(bus, bus_rigs.make_messages("c"), clock=SystemClock())
        await bus_rigs.receive_all(subscription, {"c"})
        unnoticed = await asyncio.to_thread(
            healthy.evaluate, f"lists:member('{rabbitmq_cluster.nodes[2].name}', nodes())"
        )
        assert unnoticed == "true", "the work went on before anybody noticed the frozen node"
    finally:
        await asyncio.to_thread(rabbitmq_cluster.nodes[2].resume)


OWN = Queue("own", (Binding("amq.direct", "own"),), exclusive=True)


@pytest.fixture
async def following(vhost_url: str, closing: AsyncExitStack) -> tuple[DeclaredTopology, RabbitClient]:
    """A topology whose exclusive queue `own` belongs to another connection than this one."""
    lost, client = [await connect_rabbit(vhost_url, "test") for _ in range(2)]
    for one in (lost, client):
        closing.push_async_callback(one.close)
    declared = DeclaredTopology()
    declared.keep(Topology((), (OWN,)))
    await declared.declare_exclusive(lost, [OWN])
    return declared, client


async def test_17_an_exclusive_queue_has_a_fresh_name_on_the_next_connection(
    following: tuple[DeclaredTopology, RabbitClient],
) -> None:
    declared, client = following
    assert declared.broker_name("own") == "own"
    await declared.ensure_queue(client, "own", look=True)  # the broker still holds the other connection's
    assert declared.broker_name("own") != "own"
    assert not (await client.missing((), [declared.broker_name("own")])).queues


async def test_an_exclusive_queue_is_one_though_two_declare_it_after_a_reconnect(
    following: tuple[DeclaredTopology, RabbitClient],
) -> None:
    declared, client = following

    async def declare_again() -> str:
        await declared.declare_exclusive(client, [OWN])
        return declared.broker_name("own")

    names_used = await asyncio.gather(declare_again(), declare_again())
    assert len(set(names_used)) == 1, "a second one would be bound too, and keep what nobody consumes"


async def test_17_a_lost_binding_of_an_idle_queue_comes_back(bus: Bus) -> None:
    subscription = await bus.subscribe("jobs", prefetch=10)
    await bus.unbind("jobs", bus_rigs.JOBS.bindings)
    subscription.resubscribe()  # as an idle consumer does
    async with asyncio.timeout(bus_rigs.WITHIN):
        await bus_rigs.publish_once_routable(bus, bus_rigs.make_message("a"))
    assert bus_rigs.names(await bus_rigs.receive(subscription, 1)) == ["a"]
