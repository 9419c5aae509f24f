"""The Bus port on RabbitMQ."""

import asyncio
from collections.abc import Sequence
from functools import partial

from warrener_runtime.bus.listening import Listening
from warrener_runtime.bus.namespace import DEFAULT_NAMESPACE
from warrener_runtime.bus.port import (
    Backlog,
    BindingSpec,
    BusUnreachable,
    Fate,
    Handler,
    Outgoing,
    QueueSpec,
    Subscription,
    TopologySpec,
)
from warrener_runtime.bus.rabbit.declarations import Declarations, bind
from warrener_runtime.bus.rabbit.intake import BatchIntake, Intake
from warrener_runtime.bus.rabbit.lanes import Lane
from warrener_runtime.bus.rabbit.link import Link
from warrener_runtime.bus.rabbit.listening_link import ListeningLink
from warrener_runtime.bus.rabbit.loopback import Loopback
from warrener_runtime.bus.rabbit.publisher import Publisher
from warrener_runtime.bus.rabbit.subscription import RabbitSubscription
from warrener_runtime.bus.rabbit.wire import LinkLost, Refused, Wire
from warrener_runtime.clock import SystemClock

_ANSWER_WITHIN = 5.0  # seconds


class RabbitBus:
    """Two connections, because a memory alarm stops all reading from one that has published: acknowledgements
    on it would wait until the alarm is over.

    Exclusive queues belong to the connection that carries `listen`. On the lean lane that is a third one,
    which is opened when the first of them is declared or the first `listen` comes.
    """

    def __init__(self, url: str, *, name: str, lane: Lane, namespace: str = DEFAULT_NAMESPACE) -> None:
        self._declarations = Declarations()
        where = lane.where(url)
        publish = partial(lane.connect, url, f"{name} publishes")
        consume = partial(lane.connect, url, f"{name} consumes")
        self._publishing = Link(publish, "publishing", self._prepare_publishing, where)
        self._consuming = Link(consume, "consuming", self._prepare_consuming, where)
        self._listening = ListeningLink(url, name, lane, self._consuming, self._declarations)
        self._publisher = Publisher(self._publishing)
        self._loopback = Loopback(self._consuming, self._publisher, namespace)
        self._subscriptions: list[RabbitSubscription] = []
        self._listenings: list[Listening] = []
        self._closed = False

    async def start(self) -> None:
        """Connect, patiently. Raises BusCredentialsRefused at once."""
        try:
            await self._consuming.start()
            await self._publishing.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Disconnect; what is unacknowledged goes back. May be called twice, or never started."""
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(listening.close() for listening in self._listenings))
        await asyncio.gather(*(subscription.close() for subscription in self._subscriptions))
        await asyncio.gather(self._publishing.close(), self._consuming.close(), self._listening.close())

    async def declare(self, topology: TopologySpec) -> None:
        """Make these exist, now and after each reconnect. Raises TopologyMismatch."""
        exclusive = [queue for queue in topology.queues if queue.exclusive]
        shared = [queue for queue in topology.queues if not queue.exclusive]
        await self._declare(self._consuming, topology, shared)
        if exclusive:
            link = await self._listening.started()
            await self._declare(link, topology, exclusive)
        self._declarations.keep(topology)

    async def bind(self, queue: QueueSpec) -> list[BindingSpec]:
        """Make the queue exist, and bound as it says; those bindings whose exchange is missing."""
        while True:
            wire = await self._consuming.connected()
            try:
                return await bind(wire, queue)
            except LinkLost:
                continue  # as in _declare

    async def unbind(self, queue: str, bindings: Sequence[BindingSpec]) -> None:
        """Undo these where they are there."""
        while bindings:
            wire = await self._consuming.connected()
            try:
                await wire.unbind(queue, bindings)
            except LinkLost:
                continue
            return

    async def publish(self, messages: Sequence[Outgoing], *, timeout: float = 10.0) -> list[Fate]:
        """Publish all, wait once for all confirms; what is not certain within `timeout` is UNKNOWN."""
        return await self._publisher.publish(messages, timeout)

    async def subscribe(self, queue: str, *, prefetch: int) -> Subscription:
        """Consume `queue`; returns when it does, or has failed to for the first time and goes on trying.

        An exclusive queue must have been declared before.
        """
        exclusive = self._declarations.is_exclusive(queue)
        link = await self._listening.started() if exclusive else self._consuming
        return await self._subscribe(queue, BatchIntake(queue, prefetch), link)

    async def listen(self, queue: str, handler: Handler) -> Subscription:
        """Consume a low-rate queue one message at a time, by a FastStream subscriber."""
        # FastStream costs half a second to import, and many a bus only asks.
        from warrener_runtime.bus.rabbit.faststream_intake import FastStreamIntake  # noqa: PLC0415

        subscription = await self._subscribe(queue, FastStreamIntake(queue), await self._listening.started())
        listening = Listening(subscription, handler, clock=SystemClock(), queue=queue)
        self._listenings.append(listening)
        return listening

    async def backlog(self, queue: str) -> Backlog:
        """What waits in `queue` now. Raises BusUnreachable."""
        try:
            async with asyncio.timeout(_ANSWER_WITHIN):
                wire = await self._consuming.connected()
                return await wire.backlog(queue)
        except (LinkLost, Refused, TimeoutError) as error:
            raise BusUnreachable(
                f"expected the broker to say what waits in queue {queue}, got no answer: {error}"
            ) from error

    async def ping(self, *, timeout: float = 5.0) -> None:
        """A confirmed message out by one connection and back by the other. Raises BusUnreachable."""
        await self._loopback.ping(timeout)

    async def _subscribe(self, queue: str, intake: Intake, link: Link) -> RabbitSubscription:
        subscription = RabbitSubscription(queue, intake, link, self._declarations)
        self._subscriptions = [*(one for one in self._subscriptions if not one.closed), subscription]
        await subscription.tried()
        return subscription

    async def _declare(self, link: Link, topology: TopologySpec, queues: Sequence[QueueSpec]) -> None:
        while True:
            wire = await link.connected()
            try:
                await wire.declare(topology.exchanges, queues)
            except LinkLost:
                continue  # there will be another connection, or a LinkLost that says that there is none
            return

    async def _prepare_publishing(self, wire: Wire) -> None:
        await self._publisher.prepare(wire)
        await self._declarations.restore_shared(wire)

    async def _prepare_consuming(self, wire: Wire) -> None:
        await self._listening.prepare_consuming(wire)
