"""The Bus port on RabbitMQ."""

import asyncio
import logging
from collections.abc import Sequence

from warrener_runtime.bus.listening import Listening
from warrener_runtime.bus.port import Fate, Handler, Outgoing, Subscription, TopologySpec
from warrener_runtime.bus.rabbit.connection import Connection, address
from warrener_runtime.bus.rabbit.declaring import Declarations, declare
from warrener_runtime.bus.rabbit.faults import LinkLost
from warrener_runtime.bus.rabbit.intake import BatchIntake, Intake
from warrener_runtime.bus.rabbit.link import Link
from warrener_runtime.bus.rabbit.loopback import Loopback
from warrener_runtime.bus.rabbit.publisher import Publisher
from warrener_runtime.bus.rabbit.subscription import RabbitSubscription
from warrener_runtime.clock import SystemClock


class RabbitBus:
    """Two connections, because a memory alarm stops all reading from one that has published: acknowledgements
    on it would wait until the alarm is over. Exclusive queues belong to the consuming one."""

    def __init__(self, url: str, *, name: str) -> None:
        # aiormq and aio-pika log an error for each step of what is a retry here; the bus says it once.
        for library in ("aiormq", "aio_pika"):
            logging.getLogger(library).setLevel(logging.CRITICAL)
        self._declarations = Declarations()
        self._publishing = Link(address(url, f"{name} publishes"), "publishing", self._prepare_publishing)
        self._consuming = Link(address(url, f"{name} consumes"), "consuming", self._prepare_consuming)
        self._publisher = Publisher(self._publishing)
        self._loopback = Loopback(self._consuming, self._publisher)
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
        await asyncio.gather(self._publishing.close(), self._consuming.close())

    async def declare(self, topology: TopologySpec) -> None:
        """Make these exist, now and after each reconnect. Raises TopologyMismatch."""
        while True:
            connection = await self._consuming.connected()
            try:
                await declare(connection, topology.exchanges, topology.queues)
            except LinkLost:
                continue  # there will be another connection, or a LinkLost that says that there is none
            self._declarations.keep(topology)
            return

    async def publish(self, messages: Sequence[Outgoing], *, timeout: float = 10.0) -> list[Fate]:
        """Publish all, wait once for all confirms; what is not certain within `timeout` is UNKNOWN."""
        return await self._publisher.publish(messages, timeout)

    async def subscribe(self, queue: str, *, prefetch: int) -> Subscription:
        """Consume `queue`; returns when it does, or has failed to for the first time and goes on trying."""
        return await self._subscribe(queue, BatchIntake(queue, prefetch))

    async def listen(self, queue: str, handler: Handler) -> Subscription:
        """Consume a low-rate queue one message at a time, by a FastStream subscriber."""
        # FastStream costs half a second to import, and many a bus only asks.
        from warrener_runtime.bus.rabbit.faststream_intake import FastStreamIntake  # noqa: PLC0415

        subscription = await self._subscribe(queue, FastStreamIntake(queue))
        listening = Listening(subscription, handler, clock=SystemClock(), queue=queue)
        self._listenings.append(listening)
        return listening

    async def ping(self, *, timeout: float = 5.0) -> None:
        """A confirmed message out by one connection and back by the other. Raises BusUnreachable."""
        await self._loopback.ping(timeout)

    async def _subscribe(self, queue: str, intake: Intake) -> RabbitSubscription:
        subscription = RabbitSubscription(queue, intake, self._consuming, self._declarations)
        self._subscriptions.append(subscription)
        await subscription.tried()
        return subscription

    async def _prepare_publishing(self, connection: Connection) -> None:
        await self._publisher.prepare(connection)
        await self._declarations.restore_shared(connection)

    async def _prepare_consuming(self, connection: Connection) -> None:
        await self._declarations.restore_all(connection)
