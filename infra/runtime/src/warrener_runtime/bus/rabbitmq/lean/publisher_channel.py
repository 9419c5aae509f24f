"""Publishing on a channel of `warrener_amqp`: all frames of a batch in one write, one future for all its
confirms."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import takewhile

from pamqp import commands

from warrener_amqp import (
    AmqpError,
    Channel,
    ChannelListener,
    ChannelRefused,
    Confirmed,
    PublishReturned,
    Session,
)
from warrener_runtime.bus.rabbitmq.lean.calls import translate_amqp_errors
from warrener_runtime.bus.types import OutgoingMessage, PublishResult

_NOT_FOUND, _ACCESS_REFUSED = 404, 403  # reply codes of AMQP
_WRITE = 1024 * 1024  # bytes written at once; the rest waits for the socket


class PublishBatch:
    """Messages that are published together, and their results: UNKNOWN until one is known. `done` is set when
    each has one."""

    __slots__ = ("_open", "done", "messages", "results")

    def __init__(self, messages: Sequence[OutgoingMessage]) -> None:
        self.messages = messages
        self.results = [PublishResult.UNKNOWN] * len(messages)
        self._open = len(messages)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resolve(self, index: int, result: PublishResult) -> None:
        """Set the result of one message; each gets one."""
        self.results[index] = result
        self._open -= 1
        if not self._open and not self.done.done():
            self.done.set_result(None)


class ConfirmTracker:
    """The unconfirmed messages of one channel, in the order of their numbers. Pure."""

    def __init__(self) -> None:
        self._pending: dict[int, tuple[PublishBatch, int]] = {}
        self._returned = 0  # the number of the last message that was returned

    def add(self, number: int, batch: PublishBatch, index: int) -> None:
        """Add a message of a batch that was sent under this number, the highest so far."""
        self._pending[number] = batch, index

    def confirm(self, number: int, result: PublishResult, *, multiple: bool) -> None:
        """Apply a confirm of one message, or of all up to it."""
        for one in list(takewhile(number.__ge__, self._pending)) if multiple else (number,):
            self._resolve(one, result)

    def unroutable(self, exchange: str, routing_key: str, message_id: str | None) -> None:
        """Apply a return of a mandatory message; its confirm follows and changes nothing.

        A return has no number, and the broker returns in the order of publishing: it belongs to the next
        message with this id and address, and no message is looked at for two returns.
        """
        first, last = next(iter(self._pending), 0), next(reversed(self._pending), 0)
        for number in range(max(first, self._returned + 1), last + 1):
            if (pending := self._pending.get(number)) is None:
                continue
            batch, index = pending
            message = batch.messages[index]
            if (
                message.mandatory
                and message.message_id == message_id
                and message.routing_key == routing_key
                and message.exchange == exchange
            ):
                self._returned = number
                self._resolve(number, PublishResult.UNROUTABLE)
                return

    def end(self, result_of: Callable[[OutgoingMessage], PublishResult]) -> None:
        """Resolve all pending messages by `result_of`, as the channel is gone."""
        for number, (batch, index) in list(self._pending.items()):
            self._resolve(number, result_of(batch.messages[index]))

    def _resolve(self, number: int, result: PublishResult) -> None:
        if (pending := self._pending.pop(number, None)) is not None:
            batch, index = pending
            batch.resolve(index, result)


class LeanPublisherChannel(ChannelListener):
    """A channel that publishes, with confirms."""

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
        """True if the channel can no longer be used."""
        return self._close_reason is not None

    @property
    def refusal(self) -> str | None:
        """The broker's reason, if it closed the channel over a publish."""
        return str(self._close_reason) if isinstance(self._close_reason, ChannelRefused) else None

    async def send(self, batch: PublishBatch, indexes: Sequence[int]) -> None:
        """Send these messages of a batch; return when all of it have results. After a BrokerConnectionLost
        those without one are uncertain."""
        assert self._channel is not None
        channel, transport = self._channel.number, self._session.transport
        publish = self._session.core.publish
        with translate_amqp_errors():
            await transport.drain()
            size = 0
            for index in indexes:
                if size >= _WRITE:
                    transport.flush()
                    await transport.drain()
                    size = 0
                message = batch.messages[index]
                number = publish(
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
                self._confirms.add(number, batch, index)
                size += len(message.body)
            transport.flush_soon()
        await batch.done

    async def close(self) -> None:
        """Close the channel."""
        if self._channel is not None:
            await self._channel.close()

    # -- events of the channel ----------------------------------------------------------------------------

    def on_confirm(self, confirm: Confirmed) -> None:
        """Resolve one or many messages."""
        result = PublishResult.CONFIRMED if confirm.positive else PublishResult.REFUSED
        self._confirms.confirm(confirm.tag, result, multiple=confirm.multiple)

    def on_return(self, returned: PublishReturned) -> None:
        """Resolve a message without a bound queue."""
        self._confirms.unroutable(returned.exchange, returned.routing_key, returned.properties.message_id)

    def on_closed(self, reason: AmqpError) -> None:
        """Resolve messages to the missing exchange as unroutable, those without a permission as refused, and
        all others as unknown."""
        self._close_reason = reason
        text = reason.reason if isinstance(reason, ChannelRefused) else ""
        code = reason.code if isinstance(reason, ChannelRefused) else 0

        def result_of(message: OutgoingMessage) -> PublishResult:
            if f"exchange '{message.exchange or 'amq.default'}'" not in text:
                return PublishResult.UNKNOWN
            if code == _NOT_FOUND:
                return PublishResult.UNROUTABLE
            # A topic permission refuses one routing key: "access to topic 'a.b' in exchange 'c' refused".
            if code == _ACCESS_REFUSED and (
                "topic '" not in text or f"topic '{message.routing_key}'" in text
            ):
                return PublishResult.REFUSED
            return PublishResult.UNKNOWN

        self._confirms.end(result_of)
