"""The ping of a bus: a message sent by one connection and received by the other."""

import asyncio
from collections.abc import Sequence
from uuid import uuid4

from warrener_runtime.bus.port import BusUnreachable, TopologyMismatch
from warrener_runtime.bus.rabbitmq.channels import (
    AckPlan,
    BrokerConnectionLost,
    ConsumerChannel,
    RequestRefused,
)
from warrener_runtime.bus.rabbitmq.connection import ReconnectingConnection
from warrener_runtime.bus.rabbitmq.publisher import RabbitPublisher
from warrener_runtime.bus.types import Delivery, NamedBinding, NamedMessage, NamedQueue, PublishResult

_EXCHANGE = "amq.topic"
"""Every virtual host has it, and topic permissions confine users to the keys of their pings. By the default
exchange they could publish to any queue, and by a direct one under any key of an exchange bound to it."""
_ACCESS_REFUSED = "ACCESS_REFUSED"  # the broker's word for a missing permission: no try succeeds
_PREFETCH = 100  # more than one, because a late ping stays unacknowledged until the next one


class Pinger:
    """Sends pings to an exclusive queue of the consuming connection, which stays between pings."""

    def __init__(
        self, connection: ReconnectingConnection, publisher: RabbitPublisher, namespace: str
    ) -> None:
        self._connection = connection
        self._publisher = publisher
        self._namespace = namespace
        self._queue_name = ""
        self._echoes = _EchoListener()
        self._one_at_a_time = asyncio.Lock()

    async def ping(self, seconds: float) -> None:
        """Send a ping and receive it back. Raises BusUnreachable if that takes too long, or is refused."""
        try:
            async with asyncio.timeout(seconds), self._one_at_a_time:
                while True:
                    try:
                        return await self._ping(seconds)
                    except (BrokerConnectionLost, RequestRefused, TopologyMismatch) as error:
                        if self._connection.closed or _ACCESS_REFUSED in str(error):
                            raise BrokerConnectionLost(str(error)) from error
                        # The connection broke meanwhile; the next try waits for another one.
        except (BrokerConnectionLost, TimeoutError) as error:
            raise BusUnreachable(
                f"expected a message to the broker and back within {seconds} s, got"
                f" {str(error) or 'nothing'}; look whether the broker runs, has a memory or disk alarm, or"
                " cannot be reached from here"
            ) from error

    async def _ping(self, seconds: float) -> None:
        channel = await self._open_echo_channel()
        ping = NamedMessage(
            _EXCHANGE,
            self._queue_name,
            b"ping",
            "text/plain",
            uuid4().hex,
            "ping",
            headers={},
            persistent=False,
            mandatory=True,
        )
        echo = self._echoes.expect(ping.message_id)
        [result] = await self._publisher.publish([ping], seconds)
        if result is PublishResult.REFUSED:
            raise BrokerConnectionLost(f"{_ACCESS_REFUSED} - write access to exchange {_EXCHANGE}")
        if result is not PublishResult.CONFIRMED:
            raise BrokerConnectionLost(f"the ping was {result}")
        tag = await echo
        await channel.ack(AckPlan(tag, []))

    async def _open_echo_channel(self) -> ConsumerChannel:
        client = await self._connection.wait_connected()
        if self._echoes.channel is not None and self._echoes.channel.live:
            return self._echoes.channel
        # A fresh name: a frozen node may hold the queue of a lost connection for a minute.
        name = self._queue_name = f"{self._namespace}.ping.{uuid4().hex}"
        await client.declare((), [NamedQueue(name, (NamedBinding(_EXCHANGE, name),), {}, exclusive=True)])
        self._echoes = _EchoListener()
        return await client.open_consumer(name, _PREFETCH, self._echoes)


class _EchoListener:
    """Receives pings on one channel."""

    epoch = 0

    def __init__(self) -> None:
        self.channel: ConsumerChannel | None = None
        self._expected: tuple[str, asyncio.Future[int]] | None = None

    def expect(self, message_id: str) -> "asyncio.Future[int]":
        """Return a future for the tag of the ping's delivery; it fails with BrokerConnectionLost if the
        channel ends."""
        echo: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._expected = message_id, echo
        return echo

    def on_opened(self, channel: ConsumerChannel) -> None:
        self.channel = channel

    def on_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        """Resolve the expected ping; late ones are skipped."""
        for delivery in deliveries:
            if self._expected is not None and delivery.message_id == self._expected[0]:
                echo = self._expected[1]
                if not echo.done():
                    echo.set_result(delivery.tag)

    def on_gone(self) -> None:
        if self._expected is not None and not (echo := self._expected[1]).done():
            echo.set_exception(BrokerConnectionLost("the channel that brings pings back is gone"))
            echo.exception()  # retrieved: no task may wait for it yet
