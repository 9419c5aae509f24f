"""A connection by aiormq, as the bus needs one."""

import logging
from collections.abc import Iterable, Sequence

import aiormq
from aiormq.abc import DeliveredMessage
from pamqp import commands as spec

from warrener_runtime.bus.rabbitmq.aiormq.connection import (
    RPC_SECONDS,
    HandshakeConnection,
    address,
    close_quietly,
    connect,
    open_channel,
)
from warrener_runtime.bus.rabbitmq.aiormq.consume_channel import RawConsumeChannel, write_acks, write_rejects
from warrener_runtime.bus.rabbitmq.aiormq.error_translation import translate_errors
from warrener_runtime.bus.rabbitmq.aiormq.frames import on_closed, run_unless_closed, wait_closed
from warrener_runtime.bus.rabbitmq.aiormq.publish_channel import RawPublishChannel
from warrener_runtime.bus.rabbitmq.aiormq.publisher_channel import AiormqPublisherChannel
from warrener_runtime.bus.rabbitmq.aiormq.topology import declare, unbind
from warrener_runtime.bus.rabbitmq.client import AckPlan, ConsumerListener, RequestRefused
from warrener_runtime.bus.types import BindingSpec, Delivery, ExchangeSpec, QueueSpec, QueueStats


async def connect_aiormq(url: str, name: str) -> "AiormqClient":
    """Connect, in one try. Raises BusCredentialsRefused or BrokerConnectionLost."""
    # aiormq and aio-pika log an error for each step of what is a retry here; the bus says it once.
    for library in ("aiormq", "aio_pika"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    return AiormqClient(await connect(address(url, name)))


class AiormqClient:
    """One connection of aiormq's."""

    def __init__(self, connection: HandshakeConnection) -> None:
        self.connection = connection

    @property
    def is_open(self) -> bool:
        """True if the connection is not known to be broken."""
        return not self.connection.is_closed

    async def wait_closed(self) -> None:
        """Wait until it is closed."""
        await wait_closed(self.connection)

    async def wait_unblocked(self) -> None:
        """Wait while the broker reads no publishes."""
        await run_unless_closed(self.connection, self.connection.ready())

    async def declare(self, exchanges: Iterable[ExchangeSpec], queues: Iterable[QueueSpec]) -> None:
        """Declare these."""
        await declare(self.connection, exchanges, queues)

    async def unbind(self, queue: str, bindings: Iterable[BindingSpec]) -> None:
        """Remove these bindings where they exist."""
        await unbind(self.connection, queue, bindings)

    async def has_exchange(self, name: str) -> bool:
        """True if the exchange exists. On a channel of its own, because a passive declaration that fails
        closes the channel."""
        channel = await open_channel(self.connection, aiormq.Channel)
        try:
            request = channel.exchange_declare(name, passive=True, timeout=RPC_SECONDS)
            await run_unless_closed(self.connection, request)
        except aiormq.ChannelNotFoundEntity:
            return False
        except aiormq.ChannelAccessRefused:
            pass  # it exists, and publishing to it shows the refusal
        finally:
            await close_quietly(channel)
        return True

    async def backlog(self, queue: str) -> QueueStats:
        """Count the messages that wait in a queue. On a channel of its own, because a passive declaration
        that fails closes the channel."""
        channel = await open_channel(self.connection, aiormq.Channel)
        try:
            request = channel.queue_declare(queue, passive=True, timeout=RPC_SECONDS)
            found = await run_unless_closed(self.connection, request)
        except aiormq.ChannelNotFoundEntity:
            return QueueStats(0, 0)
        finally:
            await close_quietly(channel)
        return QueueStats(found.message_count or 0, found.consumer_count or 0)

    async def open_publisher(self) -> AiormqPublisherChannel:
        """Open a channel that publishes."""
        return AiormqPublisherChannel(await open_channel(self.connection, RawPublishChannel))

    async def open_consumer(
        self, queue: str, prefetch: int, listener: ConsumerListener
    ) -> "AiormqConsumerChannel":
        """Consume `queue` on a channel of its own."""

        def arrived(message: DeliveredMessage) -> None:
            listener.on_deliveries([_delivery_of(message, listener.epoch)])

        channel = await open_channel(self.connection, RawConsumeChannel, arrived=arrived)
        try:
            notify_when_gone(channel, listener)
            consuming = AiormqConsumerChannel(channel)
            listener.on_opened(consuming)
            await run_unless_closed(self.connection, channel.consume(queue, prefetch=prefetch))
        except BaseException as error:
            await close_quietly(channel)
            if isinstance(error, aiormq.AMQPChannelError):
                raise RequestRefused(str(error)) from error
            raise
        return consuming

    async def close(self) -> None:
        """Close it, broken or not."""
        await close_quietly(self.connection)


class AiormqConsumerChannel:
    """A channel of aiormq's with one consumer."""

    def __init__(self, channel: aiormq.Channel) -> None:
        self._channel = channel

    @property
    def live(self) -> bool:
        """True if the broker delivers to this consumer."""
        return not self._channel.is_closed and bool(self._channel.consumers)

    async def ack(self, plan: AckPlan) -> None:
        """Acknowledge, in one write."""
        with translate_errors():
            await write_acks(self._channel, plan)

    async def reject(self, tags: Sequence[int], *, requeue: bool) -> None:
        """Reject, in one write."""
        with translate_errors():
            await write_rejects(self._channel, list(tags), requeue=requeue)

    async def cancel(self) -> None:
        """Stop receiving."""
        for tag in list(self._channel.consumers):
            await run_unless_closed(self._channel, self._channel.basic_cancel(tag, timeout=RPC_SECONDS))

    async def close(self) -> None:
        """Close the channel."""
        await close_quietly(self._channel)


def _delivery_of(message: DeliveredMessage, epoch: int) -> Delivery:
    delivered = message.delivery
    assert isinstance(delivered, spec.Basic.Deliver)
    assert delivered.delivery_tag is not None
    properties = message.header.properties
    return Delivery(
        body=message.body,
        routing_key=delivered.routing_key or "",
        exchange=delivered.exchange or "",
        redelivered=bool(delivered.redelivered),
        tag=delivered.delivery_tag,
        epoch=epoch,
        content_type=properties.content_type,
        message_id=properties.message_id,
        type=properties.message_type,
        headers=properties.headers or {},
    )


def notify_when_gone(channel: aiormq.abc.AbstractChannel, listener: ConsumerListener) -> None:
    """Watch the two ways in which a consumer ends without us."""

    def cancelled(_: spec.Basic.Cancel | spec.Basic.CancelOk) -> None:
        listener.on_gone()

    channel.on_consumer_cancel_callbacks.add(cancelled)
    on_closed(channel, lambda _: listener.on_gone())
