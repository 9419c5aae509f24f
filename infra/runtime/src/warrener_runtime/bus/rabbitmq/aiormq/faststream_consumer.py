"""FastStream as the carrier of low-rate queues.

FastStream would open a connection of its own and leave recovery to aio-pika. Ours lends it the connection
that the bus keeps, for one life of a consumer: when channel or consumer are lost, this FastStream broker is
thrown away and another one starts on the next connection. So its subscribers have the guarantees of all
others, exclusive queues stay on the connection that declared them, and there is one place that reconnects.
"""

import contextlib
from typing import Any, cast

import aio_pika
import aiormq
from aio_pika.abc import AbstractQueue, UnderlayConnection
from aio_pika.tools import OneShotCallback
from faststream import AckPolicy
from faststream.message import StreamMessage
from faststream.rabbit import Channel, RabbitBroker, RabbitQueue

from warrener_runtime.bus.rabbitmq.aiormq.client import AiormqClient, AiormqConsumerChannel, notify_when_gone
from warrener_runtime.bus.rabbitmq.aiormq.connection import HandshakeConnection, close_quietly
from warrener_runtime.bus.rabbitmq.aiormq.frames import run_unless_closed
from warrener_runtime.bus.rabbitmq.client import BrokerClient, ConsumerListener, RequestRefused
from warrener_runtime.bus.rabbitmq.consumer import OpenConsumer
from warrener_runtime.bus.types import Delivery

_PREFETCH = 10


class FastStreamConsumerFactory:
    """Consumes with a FastStream subscriber: raw bytes, acknowledged by us, nothing logged per message."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self.prefetch = _PREFETCH

    async def open(self, client: BrokerClient, listener: ConsumerListener) -> OpenConsumer:
        """Begin to consume."""
        assert isinstance(client, AiormqClient), "FastStream needs the connection of aio-pika's kind"
        connection = client.connection
        broker = _BorrowingBroker(connection)
        channel = Channel(prefetch_count=self.prefetch, publisher_confirms=False)
        queue = RabbitQueue(self._queue, declare=False)

        @broker.subscriber(
            queue, channel=channel, ack_policy=AckPolicy.MANUAL, decoder=_as_it_came, no_reply=True
        )
        async def receive(message: StreamMessage[aio_pika.IncomingMessage]) -> None:
            listener.on_deliveries([_delivery_of(message.raw_message, listener.epoch)])

        life = _Life(broker)
        try:
            await run_unless_closed(connection, broker.connect())
            underlay = await run_unless_closed(connection, broker.channel(channel))
            life.channel = underlay
            notify_when_gone(underlay, listener)
            listener.on_opened(AiormqConsumerChannel(underlay))
            await run_unless_closed(connection, broker.start())
        except BaseException as error:
            await life.close()
            if isinstance(error, aiormq.AMQPChannelError):
                raise RequestRefused(str(error)) from error
            raise
        return life


class _Life:
    def __init__(self, broker: RabbitBroker) -> None:
        self._broker = broker
        self.channel: aiormq.abc.AbstractChannel | None = None

    async def close(self) -> None:
        """Throw the broker away, and close its channel so that what is unacknowledged goes back."""
        if self.channel is not None:
            await close_quietly(self.channel)
        with contextlib.suppress(Exception):  # its channels may be dead, and nothing of it is used again
            await self._broker.stop()


async def _as_it_came(message: StreamMessage[aio_pika.IncomingMessage]) -> StreamMessage[Any]:
    """Decode nothing: the handler knows the schema."""
    return message


def _delivery_of(message: aio_pika.IncomingMessage, epoch: int) -> Delivery:
    assert message.delivery_tag is not None
    return Delivery(
        body=message.body,
        routing_key=message.routing_key or "",
        exchange=message.exchange or "",
        redelivered=bool(message.redelivered),
        tag=message.delivery_tag,
        epoch=epoch,
        content_type=message.content_type,
        message_id=message.message_id,
        type=message.type,
        headers=message.headers,
    )


class _BorrowedChannel(aio_pika.Channel):
    """FastStream requests robust queues; here a queue lives as long as its channel."""

    async def declare_queue(self, *args: Any, robust: bool = True, **options: Any) -> AbstractQueue:
        """As aio-pika's, which does not know `robust`."""
        del robust
        return await super().declare_queue(*args, **options)


class _BorrowedConnection(aio_pika.Connection):
    """A connection of the bus in aio-pika's dress; closing it closes nothing."""

    CHANNEL_CLASS = _BorrowedChannel

    def __init__(self, connection: HandshakeConnection) -> None:
        super().__init__(connection.url)
        self.transport = UnderlayConnection(connection, OneShotCallback(_do_nothing))
        self.connected.set()

    @property
    def is_closed(self) -> bool:
        """True if the message was returned to its queue."""
        return self.transport is None

    async def close(self, exc: aiormq.abc.ExceptionType | None = None) -> None:
        """The bus closes it."""
        self.transport = None


async def _do_nothing(_: object) -> None: ...


class _BorrowingBroker(RabbitBroker):
    """A FastStream broker on a connection that is there already."""

    def __init__(self, connection: HandshakeConnection) -> None:
        super().__init__(str(connection.url), logger=None, apply_types=False, graceful_timeout=None)
        self._borrowed = _BorrowedConnection(connection)

    async def channel(self, wanted: Channel) -> aiormq.Channel:
        """The channel that a subscriber with this specification uses."""
        opened = await self.config.channel_manager.get_channel(wanted)
        underlay = await opened.get_underlay_channel()
        assert isinstance(underlay, aiormq.Channel)
        return underlay

    async def _connect(self) -> aio_pika.RobustConnection:
        # FastStream uses nothing of a robust connection but channel() and close().
        connection = cast("aio_pika.RobustConnection", self._borrowed)
        self.config.connect(connection)
        self._channel = await self.config.channel_manager.get_channel()
        return connection
