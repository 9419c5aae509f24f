"""A connection by aiormq, as the bus needs one."""

import logging
from collections.abc import Iterable, Sequence

import aiormq
from aiormq.abc import DeliveredMessage
from pamqp import commands as spec

from warrener_runtime.bus.port import Backlog, BindingSpec, Delivery, ExchangeSpec, QueueSpec
from warrener_runtime.bus.rabbit.aiormq_publishing import AiormqPublishing
from warrener_runtime.bus.rabbit.connection import (
    RPC_SECONDS,
    Connection,
    address,
    close_quietly,
    connect,
    open_channel,
)
from warrener_runtime.bus.rabbit.consume_channel import ConsumeChannel, write_acks, write_rejects
from warrener_runtime.bus.rabbit.declaring import declare, unbind
from warrener_runtime.bus.rabbit.faults import broker_faults
from warrener_runtime.bus.rabbit.frames import ended, unless_ended, when_ended
from warrener_runtime.bus.rabbit.publish_channel import PublishChannel
from warrener_runtime.bus.rabbit.settling import AckPlan
from warrener_runtime.bus.rabbit.wire import Listener, Refused


async def connect_aiormq(url: str, name: str) -> "AiormqWire":
    """One try. Raises BusCredentialsRefused or LinkLost."""
    # aiormq and aio-pika log an error for each step of what is a retry here; the bus says it once.
    for library in ("aiormq", "aio_pika"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    return AiormqWire(await connect(address(url, name)))


class AiormqWire:
    """One connection of aiormq's."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @property
    def up(self) -> bool:
        """Whether nobody knows it to be broken."""
        return not self.connection.is_closed

    async def ended(self) -> None:
        """Wait until it is closed."""
        await ended(self.connection)

    async def unblocked(self) -> None:
        """Wait while the broker reads no publishes."""
        await unless_ended(self.connection, self.connection.ready())

    async def declare(self, exchanges: Iterable[ExchangeSpec], queues: Iterable[QueueSpec]) -> None:
        """Make these exist."""
        await declare(self.connection, exchanges, queues)

    async def unbind(self, queue: str, bindings: Iterable[BindingSpec]) -> None:
        """Undo these where they are there."""
        await unbind(self.connection, queue, bindings)

    async def has_exchange(self, name: str) -> bool:
        """Whether it exists. Asked on a channel of its own, because asking in vain closes the channel."""
        channel = await open_channel(self.connection, aiormq.Channel)
        try:
            asked = channel.exchange_declare(name, passive=True, timeout=RPC_SECONDS)
            await unless_ended(self.connection, asked)
        except aiormq.ChannelNotFoundEntity:
            return False
        except aiormq.ChannelAccessRefused:
            pass  # it exists, and publishing to it will tell
        finally:
            await close_quietly(channel)
        return True

    async def backlog(self, queue: str) -> Backlog:
        """What waits in it. Asked on a channel of its own, because asking in vain closes the channel."""
        channel = await open_channel(self.connection, aiormq.Channel)
        try:
            asked = channel.queue_declare(queue, passive=True, timeout=RPC_SECONDS)
            found = await unless_ended(self.connection, asked)
        except aiormq.ChannelNotFoundEntity:
            return Backlog(0, 0)
        finally:
            await close_quietly(channel)
        return Backlog(found.message_count or 0, found.consumer_count or 0)

    async def publishing(self) -> AiormqPublishing:
        """Open a channel that publishes."""
        return AiormqPublishing(await open_channel(self.connection, PublishChannel))

    async def consuming(self, queue: str, prefetch: int, listener: Listener) -> "AiormqConsuming":
        """Consume `queue` on a channel of its own."""

        def arrived(message: DeliveredMessage) -> None:
            listener.arrived([_delivery_of(message, listener.epoch)])

        channel = await open_channel(self.connection, ConsumeChannel, arrived=arrived)
        try:
            tell_when_gone(channel, listener)
            consuming = AiormqConsuming(channel)
            listener.opened(consuming)
            await unless_ended(self.connection, channel.consume(queue, prefetch=prefetch))
        except BaseException as error:
            await close_quietly(channel)
            if isinstance(error, aiormq.AMQPChannelError):
                raise Refused(str(error)) from error
            raise
        return consuming

    async def close(self) -> None:
        """Close it, broken or not."""
        await close_quietly(self.connection)


class AiormqConsuming:
    """A channel of aiormq's with one consumer."""

    def __init__(self, channel: aiormq.Channel) -> None:
        self._channel = channel

    @property
    def live(self) -> bool:
        """Whether the broker delivers to it."""
        return not self._channel.is_closed and bool(self._channel.consumers)

    async def ack(self, plan: AckPlan) -> None:
        """Acknowledge, in one write."""
        with broker_faults():
            await write_acks(self._channel, plan)

    async def reject(self, tags: Sequence[int], *, requeue: bool) -> None:
        """Reject, in one write."""
        with broker_faults():
            await write_rejects(self._channel, list(tags), requeue=requeue)

    async def cancel(self) -> None:
        """Receive no more."""
        for tag in list(self._channel.consumers):
            await unless_ended(self._channel, self._channel.basic_cancel(tag, timeout=RPC_SECONDS))

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


def tell_when_gone(channel: aiormq.abc.AbstractChannel, listener: Listener) -> None:
    """Watch the two ways in which a consumer ends without us."""

    def cancelled(_: spec.Basic.Cancel | spec.Basic.CancelOk) -> None:
        listener.gone()

    channel.on_consumer_cancel_callbacks.add(cancelled)
    when_ended(channel, lambda _: listener.gone())
