"""The brokers that the bus's conformance suite runs on, and what its tests say to them."""

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any, cast

import aiormq
from tests.servers.kinds import RabbitMQServer

from warrener_contracts.messages import Message
from warrener_contracts.topology import Binding, Exchange, Queue
from warrener_runtime.bus import Bus, DeclareMode, Delivery, QueueStats, Subscription, open_bus
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.clock import SystemClock
from warrener_runtime.namespace import DEFAULT_NAMESPACE
from warrener_runtime.publishing import UnroutableMessages, publish_all

WITHIN = 60.0
"""Seconds for what must happen. It takes milliseconds, but a dead letter that had no queue is published again
after 20 s, and a broker starts in as many on a busy machine."""

WORK = {"x-queue-type": "quorum"}


def dead_lettering_to(exchange: str) -> dict[str, str | int]:
    """The arguments of a queue that loses nothing."""
    refuses = {"x-overflow": "reject-publish", "x-dead-letter-strategy": "at-least-once"}
    return {**WORK, **refuses, "x-dead-letter-exchange": exchange}


BURIED = Queue("buried", (Binding("dead", "#"),), WORK)
EXCHANGES = (
    Exchange("stray", kind="fanout"),
    Exchange("ask"),
    Exchange("told", alternate="stray"),
    Exchange("dead"),
    Exchange("wait"),
    Exchange("return"),
    Exchange("all", kind="fanout"),
    Exchange("one", kind="direct"),
)
JOBS = Queue("jobs", (Binding("ask", "job.#"), Binding("return", "*.job.#")), WORK)


class MemoryRig:
    """A broker in memory, and what a test may do to it."""

    def __init__(self, closing: AsyncExitStack) -> None:
        self._closing = closing
        self._broker = MemoryBroker(SystemClock())

    async def bus(
        self,
        name: str = "tested",
        namespace: str = DEFAULT_NAMESPACE,
        declare: DeclareMode = "if-missing",
        user_id: str | None = None,
    ) -> Bus:
        assert namespace == DEFAULT_NAMESPACE, "a broker in memory has one system"
        one = MemoryBus(self._broker, name=name, declare=declare, user_id=user_id)
        return await _started(one, self._closing)

    async def drop_connections(self) -> None:
        self._broker.drop_connections()

    async def delete_queue(self, name: str) -> None:
        self._broker.delete_queue(name)

    async def restart(self) -> None:
        self._broker.restart()


class RabbitRig:
    def __init__(self, closing: AsyncExitStack, node: RabbitMQServer, url: str) -> None:
        self._closing = closing
        self._node = node
        self._url = url

    async def bus(
        self,
        name: str = "tested",
        namespace: str = DEFAULT_NAMESPACE,
        declare: DeclareMode = "if-missing",
        user_id: str | None = None,
    ) -> Bus:
        one = open_bus(self._url, name=name, namespace=namespace, declare=declare, user_id=user_id)
        return await _started(one, self._closing)

    async def drop_connections(self) -> None:
        await asyncio.to_thread(self._node.close_connections)

    async def delete_queue(self, name: str) -> None:
        async with aiormq.connect(self._url) as connection:
            channel = await connection.channel()
            await channel.queue_delete(name)

    async def restart(self) -> None:
        await asyncio.to_thread(self._node.restart)


Rig = MemoryRig | RabbitRig


async def _started(bus: Bus, closing: AsyncExitStack) -> Bus:
    closing.push_async_callback(bus.close)
    async with asyncio.timeout(WITHIN):
        await bus.start()
    return bus


def make_message(name: str, key: str = "job.x", exchange: str = "ask", *, mandatory: bool = True) -> Message:
    return Message(
        exchange=exchange,
        routing_key=key,
        body=name.encode(),
        content_type="text/plain",
        message_id=name,
        type="test",
        headers={"traceparent": f"00-{name}"},
        mandatory=mandatory,
    )


def make_messages(names: Iterable[object], key: str = "job.x") -> list[Message]:
    return [make_message(str(name), key) for name in names]


def names(deliveries: Iterable[Delivery]) -> list[str]:
    return [delivery.body.decode() for delivery in deliveries]


async def receive(subscription: Subscription, count: int) -> list[Delivery]:
    """The next `count` deliveries, however they are batched."""
    received: list[Delivery] = []
    async with asyncio.timeout(WITHIN):
        while len(received) < count:
            received += await anext(aiter(subscription))
    assert len(received) == count, f"expected {count}, got {names(received)}"
    return received


async def receive_all(subscription: Subscription, wanted: set[str]) -> list[Delivery]:
    """Deliveries until each of `wanted` came at least once; acknowledged as they come."""
    received: list[Delivery] = []
    async with asyncio.timeout(WITHIN * 2):
        while not wanted <= set(names(received)):
            batch = await anext(aiter(subscription))
            await subscription.ack(batch)
            received += batch
    return received


def death(delivery: Delivery) -> dict[str, object]:
    """The newest entry of x-death."""
    return cast("list[dict[str, object]]", delivery.headers["x-death"])[0]


async def collect(subscription: Subscription) -> list[Delivery]:
    return [delivery async for batch in subscription for delivery in batch]


async def publish_until_received(bus: Bus, one: Message, receiving: asyncio.Future[Any]) -> None:
    """Publish it until `receiving` is done: the exclusive queue of a connection that was lost may take one
    with it into its end."""
    async with asyncio.timeout(WITHIN):
        while not receiving.done():
            await publish_once_routable(bus, one)
            await asyncio.wait({receiving}, timeout=0.5)


async def until_waiting(bus: Bus, queue: str, waiting: int, consumers: int = 0) -> None:
    """Wait until a queue has so many messages and consumers: the counts of a quorum queue come a moment
    late."""
    async with asyncio.timeout(WITHIN):
        while await bus.backlog(queue) != QueueStats(waiting, consumers):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)


async def publish_once_routable(bus: Bus, one: Message) -> None:
    """Publish it as soon as a queue takes it: one that is being declared again is not there for a moment."""
    while True:
        try:
            await publish_all(bus, [one], clock=SystemClock())
        except UnroutableMessages:
            continue
        return
