"""Publishing on a channel of `warrener_amqp`: all frames of a batch in one write, one future for all its
confirms."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

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
    """Collects the results of messages that were sent together. `done` is set when each has one."""

    __slots__ = ("_open", "_results", "done")

    def __init__(self, results: list[PublishResult], size: int) -> None:
        self._results = results
        self._open = size
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resolve(self, index: int, result: PublishResult) -> None:
        """Set the result of one message; each gets one."""
        self._results[index] = result
        self.count_down()

    def resolve_all(self, indexes: Sequence[int], result: PublishResult) -> None:
        """Set the result of several messages."""
        for index in indexes:
            self._results[index] = result
        self.count_down(len(indexes))

    def count_down(self, decided: int = 1) -> None:
        """Count messages whose results are set."""
        self._open -= decided
        if not self._open and not self.done.done():
            self.done.set_result(None)


class NumberedMessage(NamedTuple):
    """A message and its place among those of the call."""

    number: int
    message: OutgoingMessage


class _PendingBatch:
    """Messages sent together, numbered from `first`. Those before `at` are resolved, and those in
    `resolved_out_of_order`."""

    __slots__ = ("at", "batch", "first", "last", "publish_batch", "resolved_out_of_order")

    def __init__(self, first: int, batch: Sequence[NumberedMessage], sent: PublishBatch) -> None:
        self.first = first
        self.last = first + len(batch) - 1
        self.batch = batch
        self.publish_batch = sent
        self.at = 0
        self.resolved_out_of_order: set[int] = set()

    def resolve_up_to(self, number: int, result: PublishResult) -> None:
        """Resolve all pending messages up to this number."""
        end = min(number, self.last) + 1 - self.first
        if end <= self.at:
            return
        undecided = range(self.at, end)
        self.at = end
        if self.resolved_out_of_order:
            indexes = [
                self.batch[offset].number for offset in undecided if offset not in self.resolved_out_of_order
            ]
            self.resolved_out_of_order.difference_update(undecided)
        else:
            indexes = [numbered.number for numbered in self.batch[undecided.start : end]]
        self.publish_batch.resolve_all(indexes, result)

    def resolve(self, number: int, result: PublishResult) -> None:
        """Resolve one message, unless it is resolved."""
        offset = number - self.first
        if offset < self.at or offset in self.resolved_out_of_order:
            return
        self.publish_batch.resolve(self.batch[offset].number, result)
        if offset == self.at:
            self.at += 1
            while self.at in self.resolved_out_of_order:
                self.resolved_out_of_order.discard(self.at)
                self.at += 1
        else:
            self.resolved_out_of_order.add(offset)

    @property
    def is_resolved(self) -> bool:
        """True if all are resolved."""
        return self.at == len(self.batch)


class ConfirmTracker:
    """The unconfirmed messages of one channel, in the order of their numbers. Pure.

    It holds nothing per message: a batch that is confirmed at once is one step.
    """

    def __init__(self) -> None:
        self._pending: deque[_PendingBatch] = deque()
        self._returned = (
            0  # the broker returns in the order of publishing: the search continues after this number
        )

    def add(self, first: int, batch: Sequence[NumberedMessage], sent: PublishBatch) -> None:
        """Add messages that were sent under the numbers from `first`."""
        self._pending.append(_PendingBatch(first, batch, sent))

    def confirm(self, number: int, result: PublishResult, *, multiple: bool) -> None:
        """Apply a confirm of one message, or of all up to it."""
        if multiple:
            for pending in self._pending:
                if pending.first > number:
                    break
                pending.resolve_up_to(number, result)
        elif (one := self._batch_of(number)) is not None:
            one.resolve(number, result)
        while self._pending and self._pending[0].is_resolved:
            self._pending.popleft()

    def unroutable(self, exchange: str, routing_key: str, message_id: str | None) -> None:
        """Apply a return of a mandatory message; its confirm follows and changes nothing.

        A return has no number: it belongs to the next message with this id and address.
        """
        number = self._next_like(exchange, routing_key, message_id)
        if number is not None and (pending := self._batch_of(number)) is not None:
            self._returned = number
            pending.resolve(number, PublishResult.UNROUTABLE)

    def end(self, result_of: Callable[[OutgoingMessage], PublishResult]) -> None:
        """Resolve all pending messages by `result_of`, as the channel is gone."""
        remaining, self._pending = self._pending, deque()
        for pending in remaining:
            for offset, (_, message) in enumerate(pending.batch):
                pending.resolve(pending.first + offset, result_of(message))

    def _batch_of(self, number: int) -> _PendingBatch | None:
        return next((pending for pending in self._pending if pending.first <= number <= pending.last), None)

    def _next_like(self, exchange: str, routing_key: str, message_id: str | None) -> int | None:
        for pending in self._pending:
            if pending.last <= self._returned:
                continue
            for offset in range(max(pending.at, self._returned + 1 - pending.first), len(pending.batch)):
                message = pending.batch[offset].message
                if (
                    message.mandatory
                    and message.message_id == message_id
                    and message.routing_key == routing_key
                    and message.exchange == exchange
                ):
                    return pending.first + offset
        return None


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

    async def send(self, batch: Sequence[NumberedMessage], sent: PublishBatch) -> None:
        """Send all; return when each has a result. After a BrokerConnectionLost those without one are
        uncertain."""
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
        """Close the channel."""
        if self._channel is not None:
            await self._channel.close()

    def _write(self, batch: Sequence[NumberedMessage], start: int, sent: PublishBatch) -> int:
        """Write messages from `start` on, as many as one write takes; return the index to continue at."""
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
        finally:  # an invalid message raises; those before it are under way
            if end > start:
                first = last - (end - start) + 1
                self._confirms.add(first, batch[start:end], sent)
        return end

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
