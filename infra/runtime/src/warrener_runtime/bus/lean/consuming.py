"""Consuming on a channel of the lean lane: deliveries by the loop turn, acknowledgements in one write."""

import contextlib
from collections.abc import Sequence

from pamqp import commands

from warrener_amqp import AmqpError, Channel, Confirmed, Delivered, Returned, Session
from warrener_runtime.bus.lean.answers import answered
from warrener_runtime.bus.lean.faults import lean_faults
from warrener_runtime.bus.port import Delivery
from warrener_runtime.bus.rabbit.settling import AckPlan
from warrener_runtime.bus.rabbit.wire import LinkLost, Listener


class LeanConsuming:
    """A channel with one consumer."""

    def __init__(self, session: Session, listener: Listener) -> None:
        self._session = session
        self._listener = listener
        self._channel: Channel | None = None
        self._consumer: str | None = None
        self._arrived: list[Delivery] = []

    async def open(self, queue: str, prefetch: int) -> None:
        """Begin to consume. Raises AmqpError, TimeoutError."""
        self._channel = await answered(self._session.channel(self))
        self._listener.opened(self)
        await answered(self._channel.call(commands.Basic.Qos(0, prefetch), commands.Basic.QosOk))
        began = await answered(
            self._channel.call(commands.Basic.Consume(queue=queue), commands.Basic.ConsumeOk)
        )
        self._consumer = str(began.consumer_tag)

    @property
    def live(self) -> bool:
        """Whether the broker delivers to it."""
        return self._consumer is not None

    async def ack(self, plan: AckPlan) -> None:
        """Acknowledge; it leaves with all else that is said in this loop turn."""
        with lean_faults():
            await self._session.transport.drained()
            core, channel = self._session.core, self._number
            if plan.upto is not None:
                core.ack(channel, plan.upto, multiple=True)
            for tag in plan.singly:
                core.ack(channel, tag)
            self._session.transport.flush_soon()

    async def reject(self, tags: Sequence[int], *, requeue: bool) -> None:
        """Reject; it leaves with all else that is said in this loop turn."""
        with lean_faults():
            await self._session.transport.drained()
            for tag in tags:
                self._session.core.reject(self._number, tag, requeue=requeue)
            self._session.transport.flush_soon()

    async def cancel(self) -> None:
        """Receive no more."""
        if self._channel is not None and self._consumer is not None:
            ask = commands.Basic.Cancel(self._consumer)
            with lean_faults():
                await answered(self._channel.call(ask, commands.Basic.CancelOk))
            self.on_heard()
            self._consumer = None

    async def close(self) -> None:
        """Give it up: what is unacknowledged goes back, at the latest with the connection."""
        if self._channel is not None:
            with contextlib.suppress(LinkLost), lean_faults():
                await answered(self._channel.close())

    @property
    def _number(self) -> int:
        assert self._channel is not None
        return self._channel.number

    def _gone(self) -> None:
        self._consumer = None
        self._listener.gone()

    # -- what the channel hears ----------------------------------------------------------------------------

    def on_delivery(self, delivery: Delivered) -> None:
        """Gathered until the loop turn's input was read."""
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
            )
        )

    def on_heard(self) -> None:
        """Passed on together."""
        if self._arrived:
            arrived, self._arrived = self._arrived, []
            self._listener.arrived(arrived)

    def on_cancel(self, consumer: str) -> None:
        """The broker ended the consumer."""
        self.on_heard()
        self._gone()

    def on_closed(self, reason: AmqpError) -> None:
        """The channel is gone."""
        self._arrived.clear()
        self._gone()

    def on_confirm(self, confirm: Confirmed) -> None:
        """Nothing is published here."""

    def on_return(self, returned: Returned) -> None:
        """Nothing is published here."""
