"""Publishing on a channel of the lean lane: all frames of a batch in one write, one future for all its
confirms."""

from collections.abc import Sequence

from pamqp import commands

from warrener_amqp import AmqpError, Channel, ChannelRefused, Confirmed, Delivered, Returned, Session
from warrener_runtime.bus.lean.faults import lean_faults
from warrener_runtime.bus.lean.flights import Flights
from warrener_runtime.bus.port import Fate, Outgoing
from warrener_runtime.bus.rabbit.rounds import Round
from warrener_runtime.bus.rabbit.wire import Numbered

_WRITE = 1024 * 1024  # bytes that are handed to the socket at once; more wait until it has taken them


class LeanPublishing:
    """A channel with confirms."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._flights = Flights()
        self._channel: Channel | None = None
        self._why_closed: AmqpError | None = None

    async def open(self) -> None:
        """Open the channel. Raises AmqpError."""
        self._channel = await self._session.channel(self)
        await self._channel.call(commands.Confirm.Select(), commands.Confirm.SelectOk)

    @property
    def closed(self) -> bool:
        """Whether it can be used no more."""
        return self._why_closed is not None

    @property
    def refusal(self) -> str | None:
        """What the broker said when it closed the channel."""
        return str(self._why_closed) if isinstance(self._why_closed, ChannelRefused) else None

    async def send(self, batch: Sequence[Numbered], sent: Round) -> None:
        """Send all; returns when each has a fate."""
        transport = self._session.transport
        with lean_faults():
            at = 0
            while True:
                await transport.drained()
                at = self._write(batch, at, sent)
                if at == len(batch):
                    break
                transport.flush()
            transport.flush_soon()
        await sent.over

    async def close(self) -> None:
        """Give it up."""
        if self._channel is not None:
            await self._channel.close()

    def _write(self, batch: Sequence[Numbered], start: int, sent: Round) -> int:
        """Hand over messages from `start` on, as many as one write takes; where to go on."""
        assert self._channel is not None
        publish, channel = self._session.core.publish, self._channel.number
        end, size, first, last = start, 0, 0, 0
        try:
            while end < len(batch) and size < _WRITE:
                message = batch[end].message
                last = publish(
                    channel,
                    message.exchange,
                    message.routing_key,
                    message.body,
                    content_type=message.content_type,
                    headers=message.headers,
                    message_id=message.message_id,
                    type=message.type,
                    persistent=message.persistent,
                    mandatory=message.mandatory,
                )
                size += len(message.body)
                end += 1
        finally:  # a message that cannot be written raises; those before it are under way all the same
            if end > start:
                first = last - (end - start) + 1
                self._flights.add(first, batch[start:end], sent)
        return end

    # -- what the channel hears ----------------------------------------------------------------------------

    def on_confirm(self, confirm: Confirmed) -> None:
        """The broker has them safe, or refuses them."""
        fate = Fate.CONFIRMED if confirm.positive else Fate.REFUSED
        self._flights.confirm(confirm.tag, fate, multiple=confirm.multiple)

    def on_return(self, returned: Returned) -> None:
        """No queue is bound for it."""
        self._flights.unroutable(returned.exchange, returned.routing_key, returned.properties.message_id)

    def on_closed(self, reason: AmqpError) -> None:
        """What went to an exchange that is missing is nowhere; the rest is uncertain."""
        self._why_closed = reason
        said = reason.reason if isinstance(reason, ChannelRefused) and reason.code == 404 else ""

        def fate(message: Outgoing) -> Fate:
            return Fate.UNROUTABLE if f"no exchange '{message.exchange}'" in said else Fate.UNKNOWN

        self._flights.end(fate)

    def on_delivery(self, delivery: Delivered) -> None:
        """None come here."""

    def on_cancel(self, consumer: str) -> None:
        """There is no consumer here."""

    def on_heard(self) -> None:
        """Rounds wake their callers themselves."""
