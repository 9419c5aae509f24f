"""Consuming on a channel of `warrener_amqp`: deliveries per loop turn, acknowledgements in one write."""

import contextlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pamqp import commands

from warrener_amqp import AmqpError, Channel, ChannelListener, Delivered, Session
from warrener_runtime.bus.rabbitmq.lean.calls import BrokerConnectionLost, translate_amqp_errors, with_timeout
from warrener_runtime.bus.types import Delivery


class AckPlan(NamedTuple):
    """Acknowledge everything up to `up_to` at once, and the `individual` tags one by one."""

    up_to: int | None
    individual: list[int]


class ConsumerListener(Protocol):
    """Receives the events of one consumer."""

    @property
    def epoch(self) -> int:
        """The epoch of its deliveries."""
        ...

    def on_opened(self, channel: "LeanConsumerChannel") -> None:
        """The channel that delivers, and on which to acknowledge; called before the first delivery."""
        ...

    def on_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        """Deliveries that arrived together."""
        ...

    def on_gone(self) -> None:
        """The channel closed, or the broker cancelled the consumer. May be called more than once."""
        ...


class LeanConsumerChannel(ChannelListener):
    """A channel with one consumer."""

    def __init__(self, session: Session, listener: ConsumerListener) -> None:
        self._session = session
        self._listener = listener
        self._channel: Channel | None = None
        self._consumer: str | None = None
        self._arrived: list[Delivery] = []

    async def open(self, queue: str, prefetch: int) -> None:
        """Open the channel and consume. Raises AmqpError, TimeoutError."""
        self._channel = await with_timeout(self._session.channel(self))
        self._listener.on_opened(self)
        await with_timeout(self._channel.call(commands.Basic.Qos(0, prefetch), commands.Basic.QosOk))
        began = await with_timeout(
            self._channel.call(commands.Basic.Consume(queue=queue), commands.Basic.ConsumeOk)
        )
        self._consumer = str(began.consumer_tag)

    @property
    def live(self) -> bool:
        """True if the broker delivers to this consumer, as far as is known."""
        return self._consumer is not None

    async def ack(self, plan: AckPlan) -> None:
        """Acknowledge, in the one write of this loop turn. Raises BrokerConnectionLost."""
        with translate_amqp_errors():
            await self._session.transport.drain()
            core, channel = self._session.core, self._number
            if plan.up_to is not None:
                core.ack(channel, plan.up_to, multiple=True)
            for tag in plan.individual:
                core.ack(channel, tag)
            self._session.transport.flush_soon()

    async def reject(self, tags: Sequence[int], *, requeue: bool) -> None:
        """Reject, in the one write of this loop turn. Raises BrokerConnectionLost.

        Not nack: RabbitMQ 4.3 does not count it, and poison would come back without end.
        """
        with translate_amqp_errors():
            await self._session.transport.drain()
            for tag in tags:
                self._session.core.reject(self._number, tag, requeue=requeue)
            self._session.transport.flush_soon()

    async def cancel(self) -> None:
        """Stop receiving; deliveries that have arrived may still be settled. Raises BrokerConnectionLost."""
        if self._channel is not None and self._consumer is not None:
            method = commands.Basic.Cancel(self._consumer)
            with translate_amqp_errors():
                await with_timeout(self._channel.call(method, commands.Basic.CancelOk))
            self.on_read_complete()
            self._consumer = None

    async def close(self) -> None:
        """Close the channel; unacknowledged deliveries go back, at the latest with the connection."""
        if self._channel is not None:
            with contextlib.suppress(BrokerConnectionLost), translate_amqp_errors():
                await with_timeout(self._channel.close())

    @property
    def _number(self) -> int:
        assert self._channel is not None
        return self._channel.number

    def _gone(self) -> None:
        self._consumer = None
        self._listener.on_gone()

    # -- events of the channel ----------------------------------------------------------------------------

    def on_delivery(self, delivery: Delivered) -> None:
        """Collect a delivery until the input of the loop turn is read."""
        _, _, tag, redelivered, exchange, routing_key, properties, body = delivery
        self._arrived.append(
            Delivery(
                body,
                routing_key,
                exchange,
                redelivered,
                tag,
                self._listener.epoch,
                properties.content_type,
                properties.message_id,
                properties.type,
                properties.headers,
                properties.readable,
            )
        )

    def on_read_complete(self) -> None:
        """Pass the collected deliveries on together."""
        if self._arrived:
            arrived, self._arrived = self._arrived, []
            self._listener.on_deliveries(arrived)

    def on_cancel(self, consumer: str) -> None:
        self.on_read_complete()
        self._gone()

    def on_closed(self, reason: AmqpError) -> None:
        self._arrived.clear()
        self._gone()
