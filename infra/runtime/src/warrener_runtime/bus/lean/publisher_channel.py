"""Publishing on a channel of the lean lane: all frames of a batch in one write, one future for all its
confirms."""

from collections.abc import Sequence

from pamqp import commands

from warrener_amqp import AmqpError, Channel, ChannelRefused, Confirmed, Delivered, PublishReturned, Session
from warrener_runtime.bus.lean.confirm_tracker import ConfirmTracker
from warrener_runtime.bus.lean.error_translation import translate_amqp_errors
from warrener_runtime.bus.port import OutgoingMessage, PublishResult
from warrener_runtime.bus.rabbit.broker_client import NumberedMessage
from warrener_runtime.bus.rabbit.publish_batch import PublishBatch

_WRITE = 1024 * 1024  # bytes that are handed to the socket at once; more wait until it has taken them


class LeanPublisherChannel:
    """A channel with confirms."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._confirms = ConfirmTracker()
        self._channel: Channel | None = None
        self._close_reason: AmqpError | None = None

    async def open(self) -> None:
        """Open the channel. Raises AmqpError."""
        self._channel = await self._session.channel(self)
        await self._channel.call(commands.Confirm.Select(), commands.Confirm.SelectOk)

    @property
    def closed(self) -> bool:
        """Whether it can be used no more."""
        return self._close_reason is not None

    @property
    def refusal(self) -> str | None:
        """What the broker said when it closed the channel."""
        return str(self._close_reason) if isinstance(self._close_reason, ChannelRefused) else None

    async def send(self, batch: Sequence[NumberedMessage], sent: PublishBatch) -> None:
        """Send all; returns when each has a fate."""
        transport = self._session.transport
        with translate_amqp_errors():
            at = 0
            while True:
                await transport.drain()
                at = self._write(batch, at, sent)
                if at == len(batch):
                    break
                transport.flush()
            transport.flush_soon()
        await sent.done

    async def close(self) -> None:
        """Give it up."""
        if self._channel is not None:
            await self._channel.close()

    def _write(self, batch: Sequence[NumberedMessage], start: int, sent: PublishBatch) -> int:
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
                self._confirms.add(first, batch[start:end], sent)
        return end

    # -- what the channel hears ----------------------------------------------------------------------------

    def on_confirm(self, confirm: Confirmed) -> None:
        """The broker has them safe, or refuses them."""
        result = PublishResult.CONFIRMED if confirm.positive else PublishResult.REFUSED
        self._confirms.confirm(confirm.tag, result, multiple=confirm.multiple)

    def on_return(self, returned: PublishReturned) -> None:
        """No queue is bound for it."""
        self._confirms.unroutable(returned.exchange, returned.routing_key, returned.properties.message_id)

    def on_closed(self, reason: AmqpError) -> None:
        """What went to an exchange that is missing is nowhere; the rest is uncertain."""
        self._close_reason = reason
        reason_text = reason.reason if isinstance(reason, ChannelRefused) and reason.code == 404 else ""

        def result_of(message: OutgoingMessage) -> PublishResult:
            return (
                PublishResult.UNROUTABLE
                if f"no exchange '{message.exchange}'" in reason_text
                else PublishResult.UNKNOWN
            )

        self._confirms.end(result_of)

    def on_delivery(self, delivery: Delivered) -> None:
        """None come here."""

    def on_cancel(self, consumer: str) -> None:
        """There is no consumer here."""

    def on_read_complete(self) -> None:
        """Rounds wake their callers themselves."""
