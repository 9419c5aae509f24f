"""One channel for tasks: calls and their replies, and a listener for everything else."""

import asyncio
from collections import deque
from contextlib import suppress
from typing import TypeVar

from pamqp import commands
from pamqp.base import Frame as Method

from warrener_amqp import events
from warrener_amqp.connection import Connection
from warrener_amqp.errors import AmqpError, ChannelGone, ChannelRefused, ProtocolViolated
from warrener_amqp.transport import Transport

M = TypeVar("M", bound=Method)


class ChannelListener:
    """Receives a channel's events in the order of the wire; this one ignores all. Called inside the loop: be
    quick, do not raise."""

    def on_delivery(self, delivery: events.Delivered) -> None:
        """A message for a consumer of this channel."""

    def on_confirm(self, confirm: events.Confirmed) -> None:
        """The broker has stored, or refuses, one or many publishes."""

    def on_return(self, returned: events.PublishReturned) -> None:
        """A mandatory publish has no queue; its confirm follows."""

    def on_cancel(self, consumer: str) -> None:
        """The broker ended a consumer."""

    def on_read_complete(self) -> None:
        """All events of this loop turn were passed on: the moment to handle them together."""

    def on_closed(self, reason: AmqpError) -> None:
        """The channel is gone: ChannelRefused, ChannelGone (we closed it), or the loss of the connection. The
        last event."""


class Channel:
    """One channel of a session. Replies come in the order of the calls, so calls need not wait for each
    other."""

    def __init__(
        self, core: Connection, transport: Transport, number: int, listener: ChannelListener | None
    ) -> None:
        self.number = number
        self.close_reason: AmqpError | None = None
        self._core = core
        self._transport = transport
        self._listener = listener
        self._pending_replies: deque[asyncio.Future[Method]] = deque()
        self._has_events = False

    async def wait_opened(self) -> None:
        """Wait for the reply to the core's Channel.Open."""
        await self._wait_reply(commands.Channel.OpenOk)

    async def call(self, method: Method, answer: type[M]) -> M:
        """Send a method and await its reply.

        Raises ChannelRefused if the broker refused this call, ChannelGone, ConnectionLost. May be cancelled:
        the reply is then dropped when it comes.
        """
        self._require_open()
        self._core.call(self.number, method)
        return await self._wait_reply(answer)

    async def close(self) -> None:
        """Close the channel; unacknowledged deliveries go back. May be called twice; a lost connection is no
        error."""
        if self.close_reason is not None:
            return
        with suppress(AmqpError):  # then it is closed already
            self._core.close_channel(self.number)
            await self._wait_reply(commands.Channel.CloseOk)
        self.end(ChannelGone(f"expected an open channel, got {self.number}, which we closed"))

    def abandon(self) -> None:
        """Close the channel without waiting for the reply."""
        with suppress(AmqpError):
            self._core.close_channel(self.number)
            self._transport.flush_soon()
        self.end(ChannelGone(f"expected an open channel, got {self.number}, which was given up"))

    def handle_event(self, event: events.AmqpEvent) -> None:
        listener = self._listener
        match event:
            case events.Delivered() if listener is not None:
                listener.on_delivery(event)
                self._has_events = True
            case events.Replied():
                if self._pending_replies and not (answer := self._pending_replies.popleft()).done():
                    answer.set_result(event.method)
            case events.ChannelClosed():
                self.end(ChannelRefused(event.code, event.reason))
            case events.Confirmed() if listener is not None:
                listener.on_confirm(event)
                self._has_events = True
            case events.PublishReturned() if listener is not None:
                listener.on_return(event)
                self._has_events = True
            case events.ConsumerCancelled() if listener is not None:
                listener.on_cancel(event.consumer)
            case _:
                pass

    def handle_read_complete(self) -> None:
        """Report the end of a loop turn's input."""
        if self._has_events:
            self._has_events = False
            if self._listener is not None and self.close_reason is None:
                self._listener.on_read_complete()

    def end(self, reason: AmqpError) -> None:
        """End the channel: fail the calls that wait, and notify the listener."""
        if self.close_reason is not None:
            return
        self.close_reason = reason
        gone = ChannelGone(f"expected an open channel, got one that is closed: {reason}")
        failure: AmqpError = reason  # the broker refuses the first call that has no reply
        for answer in self._pending_replies:
            if not answer.done():
                answer.set_exception(failure)
            if isinstance(reason, ChannelRefused):
                failure = gone
        self._pending_replies.clear()
        if self._listener is not None:
            self._listener.on_closed(reason)

    def _require_open(self) -> None:
        if self.close_reason is not None:
            raise ChannelGone(f"expected an open channel, got one that is closed: {self.close_reason}")

    async def _wait_reply(self, kind: type[M]) -> M:
        answer: asyncio.Future[Method] = asyncio.get_running_loop().create_future()
        self._pending_replies.append(answer)
        self._transport.flush_soon()
        got = await answer
        if not isinstance(got, kind):
            raise ProtocolViolated(f"expected {kind.name}, got {got.name}")
        return got
