"""One channel as tasks use it."""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Protocol, TypeVar

from pamqp import commands
from pamqp.base import Frame as Method

from warrener_amqp.connection import Connection
from warrener_amqp.errors import AmqpError, ChannelGone, ChannelRefused, ProtocolViolated
from warrener_amqp.events import (
    AmqpEvent,
    ChannelClosed,
    Confirmed,
    ConsumerCancelled,
    Delivered,
    PublishReturned,
    Replied,
)
from warrener_amqp.transport import Transport

M = TypeVar("M", bound=Method)


class ChannelListener(Protocol):
    """What a channel's owner hears, in the order of the wire. Called inside the loop: be quick, do not
    raise."""

    def on_delivery(self, delivery: Delivered) -> None:
        """A message for a consumer of this channel."""
        ...

    def on_confirm(self, confirm: Confirmed) -> None:
        """The broker has, or refuses, one or many publishes."""
        ...

    def on_return(self, returned: PublishReturned) -> None:
        """A publish has no queue; its confirm follows."""
        ...

    def on_cancel(self, consumer: str) -> None:
        """The broker ended a consumer."""
        ...

    def on_read_complete(self) -> None:
        """All that came in this loop turn was told: the moment to pass it on in one piece."""
        ...

    def on_closed(self, reason: AmqpError) -> None:
        """The channel is gone: ChannelRefused, ChannelGone (we closed it), or why the connection is lost.
        Once, and nothing comes after."""
        ...


class Channel:
    """One channel of a session. Answers come in the order of the calls, so calls need not wait for each
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
        """Wait for the answer to the core's Channel.Open."""
        await self._wait_reply(commands.Channel.OpenOk)

    async def call(self, method: Method, answer: type[M]) -> M:
        """Send a method and await its answer.

        Raises ChannelRefused to whose call the broker refused, ChannelGone, ConnectionLost. May be cancelled:
        the answer is then taken and forgotten when it comes.
        """
        self._require_open()
        self._core.call(self.number, method)
        return await self._wait_reply(answer)

    async def close(self) -> None:
        """Close it; what is unacknowledged goes back. May be called twice; of a lost connection it says
        nothing."""
        if self.close_reason is not None:
            return
        with suppress(AmqpError):  # then it is closed, by whomever
            self._core.close_channel(self.number)
            await self._wait_reply(commands.Channel.CloseOk)
        self.end(ChannelGone(f"expected an open channel, got {self.number}, which we closed"))

    def abandon(self) -> None:
        """Close it without waiting for the answer."""
        with suppress(AmqpError):
            self._core.close_channel(self.number)
            self._transport.flush_soon()
        self.end(ChannelGone(f"expected an open channel, got {self.number}, which was given up"))

    def handle_event(self, event: AmqpEvent) -> None:
        """An event of this channel."""
        listener = self._listener
        match event:
            case Delivered() if listener is not None:
                listener.on_delivery(event)
                self._has_events = True
            case Replied():
                self._resolve_reply(event.method)
            case ChannelClosed():
                self.end(ChannelRefused(event.code, event.reason))
            case Confirmed() if listener is not None:
                listener.on_confirm(event)
                self._has_events = True
            case PublishReturned() if listener is not None:
                listener.on_return(event)
                self._has_events = True
            case ConsumerCancelled() if listener is not None:
                listener.on_cancel(event.consumer)
            case _:
                pass

    def handle_read_complete(self) -> None:
        """The loop turn's input was told."""
        if self._has_events:
            self._has_events = False
            if self._listener is not None and self.close_reason is None:
                self._listener.on_read_complete()

    def end(self, reason: AmqpError) -> None:
        """The channel is gone."""
        if self.close_reason is not None:
            return
        self.close_reason = reason
        gone = ChannelGone(f"expected an open channel, got one that is closed: {reason}")
        failure: AmqpError = reason  # the broker refuses the first call that it did not answer
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

    def _resolve_reply(self, method: Method) -> None:
        if self._pending_replies and not (answer := self._pending_replies.popleft()).done():
            answer.set_result(method)
