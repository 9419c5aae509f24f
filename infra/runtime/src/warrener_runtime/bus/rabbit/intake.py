"""What brings deliveries of a queue: one life of a consumer, from opening its channel to losing it."""

from typing import Protocol

import aiormq
from aiormq.abc import DeliveredMessage
from pamqp import commands as spec

from warrener_runtime.bus.port import Delivery
from warrener_runtime.bus.rabbit.connection import Connection, close_quietly, open_channel
from warrener_runtime.bus.rabbit.consume_channel import ConsumeChannel
from warrener_runtime.bus.rabbit.frames import unless_ended, when_ended


class Listener(Protocol):
    """Who is told of a consumer's life."""

    @property
    def epoch(self) -> int:
        """What its deliveries are marked with."""
        ...

    def opened(self, channel: aiormq.Channel) -> None:
        """This channel will bring deliveries; acknowledge on it. Comes before the first of them."""
        ...

    def arrived(self, delivery: Delivery) -> None:
        """One delivery."""
        ...

    def gone(self) -> None:
        """The channel closed, or the broker cancelled the consumer. May be told more than once."""
        ...


class Consumer(Protocol):
    """A consumer that was opened."""

    async def close(self) -> None:
        """Give it up: what is unacknowledged goes back."""
        ...


class Intake(Protocol):
    """How a queue is consumed."""

    async def open(self, connection: Connection, listener: Listener) -> Consumer:
        """Begin to consume. Raises LinkLost, or the broker's refusal."""
        ...


class BatchIntake:
    """Consumes with a channel of our own, for the queues that carry much."""

    def __init__(self, queue: str, prefetch: int) -> None:
        self._queue = queue
        self._prefetch = prefetch

    async def open(self, connection: Connection, listener: Listener) -> Consumer:
        """Begin to consume."""

        def arrived(message: DeliveredMessage) -> None:
            listener.arrived(_delivery_of(message, listener.epoch))

        channel = await open_channel(connection, ConsumeChannel, arrived=arrived)
        try:
            tell_when_gone(channel, listener)
            listener.opened(channel)
            await unless_ended(connection, channel.consume(self._queue, prefetch=self._prefetch))
        except BaseException:
            await close_quietly(channel)
            raise
        return _OpenChannel(channel)


class _OpenChannel:
    def __init__(self, channel: ConsumeChannel) -> None:
        self._channel = channel

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
