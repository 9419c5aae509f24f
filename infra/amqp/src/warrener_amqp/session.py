"""One connection as tasks use it: open it, open channels, call methods and await their answers.

Happenings of a channel go to its listener as they come, in the order of the wire, without a task for each.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from warrener_amqp.address import Address
from warrener_amqp.channel import Channel, Listener
from warrener_amqp.connection import Connection
from warrener_amqp.errors import AmqpError, ConnectionLost
from warrener_amqp.happenings import (
    Blocked,
    ChannelClosed,
    Closed,
    Confirmed,
    ConsumerCancelled,
    Delivered,
    Failed,
    Happening,
    Opened,
    Replied,
    Returned,
    Unblocked,
)
from warrener_amqp.transport import Transport

_CLOSE_WITHIN = 5.0  # seconds


class Session:
    """One connection to the broker, opened once; another one is another session."""

    def __init__(self, where: Address) -> None:
        self.core = Connection(where.credentials, where.wishes)
        self.transport = Transport(self.core, self._hear, self._lost)
        self._where = where
        self._channels: dict[int, Channel] = {}
        self._opened: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        self._goodbye = asyncio.Event()
        self._unblocked = asyncio.Event()
        self._unblocked.set()
        self.why_lost: AmqpError | None = None
        self.blocked: str | None = None

    @property
    def up(self) -> bool:
        """Whether it is open, as far as is known before the next heartbeat."""
        opened = self._opened.done() and not self._opened.cancelled()
        return opened and self.why_lost is None and not self.core.closed

    async def open(self, *, timeout: float = 10.0) -> Opened:
        """Connect and shake hands. Raises OSError, AuthenticationRefused, ConnectionLost."""
        try:
            async with asyncio.timeout(timeout):
                await self.transport.connect(self._where.host, self._where.port, self._where.tls())
                return await self._opened
        except TimeoutError as error:
            why = f"expected {self._where} to open a connection within {timeout:.0f} s, got no answer"
            raise ConnectionLost(why) from error
        finally:
            if not self._opened.done() or self._opened.cancelled() or self._opened.exception() is not None:
                self.transport.abort(ConnectionLost("expected an open connection, got one that was given up"))

    async def channel(self, listener: Listener | None = None) -> Channel:
        """Open a channel. Raises ConnectionLost; ProtocolViolated where there are too many."""
        number = self.core.open_channel()
        channel = self._channels[number] = Channel(self.core, self.transport, number, listener)
        try:
            await channel.opened()
        except asyncio.CancelledError:
            channel.abandon()
            raise
        return channel

    async def unblocked(self) -> None:
        """Wait while the broker reads no publishes. Raises ConnectionLost."""
        await self._unblocked.wait()
        if self.why_lost is not None:
            raise self.why_lost

    async def ended(self) -> None:
        """Wait until it is lost or closed; `why_lost` says why."""
        await self.transport.lost.wait()

    async def close(self) -> None:
        """Say goodbye, wait for the broker's at most some seconds, hang up. May be called twice, or before
        open."""
        if self.up:
            self.core.close()
            self.transport.flush_soon()
            await _set_within(self._goodbye, _CLOSE_WITHIN)
        if not self.transport.lost.is_set():
            self.transport.hang_up(ConnectionLost("expected an open connection, got one that we closed"))
            await self.transport.lost.wait()

    def _hear(self, happenings: Sequence[Happening]) -> None:
        channels = self._channels
        for happening in happenings:
            match happening:
                case Delivered() | Confirmed() | Returned() | Replied() | ConsumerCancelled():
                    if (channel := channels.get(happening.channel)) is not None:
                        channel.hear(happening)
                case ChannelClosed():
                    if (channel := channels.pop(happening.channel, None)) is not None:
                        channel.hear(happening)
                case _:
                    self._hear_of_connection(happening)
        for channel in list(channels.values()):
            channel.heard()

    def _hear_of_connection(self, happening: Happening) -> None:
        match happening:
            case Opened() if not self._opened.done():
                self._opened.set_result(happening)
            case Blocked():
                self.blocked = happening.reason
                self._unblocked.clear()
            case Unblocked():
                self.blocked = None
                self._unblocked.set()
            case Closed():
                self._goodbye.set()
            case Failed():
                self._over(happening.error)
            case _:
                pass

    def _lost(self, reason: Exception) -> None:
        self._over(reason if isinstance(reason, AmqpError) else ConnectionLost(str(reason)))

    def _over(self, error: AmqpError) -> None:
        if self.why_lost is not None:
            return
        self.why_lost = error
        if not self._opened.done():
            self._opened.set_exception(error)
            self._opened.exception()  # whoever opened it may be gone already
        self._goodbye.set()
        self._unblocked.set()
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.end(error)


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
