"""One connection for tasks: open it, open channels, call methods and await their replies.

Events of a channel go to its listener as they arrive, in the order of the wire, without a task for each.
"""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress

from warrener_amqp.address import Address
from warrener_amqp.channel import Channel, ChannelListener
from warrener_amqp.connection import Connection
from warrener_amqp.errors import AmqpError, AuthenticationRefused, ConnectionLost
from warrener_amqp.events import (
    AmqpEvent,
    Blocked,
    ChannelClosed,
    Closed,
    Confirmed,
    ConnectionFailed,
    ConsumerCancelled,
    Delivered,
    Opened,
    PublishReturned,
    Replied,
    Unblocked,
)
from warrener_amqp.transport import Transport

_CLOSE_TIMEOUT = 5.0  # seconds
_MIN_HANDSHAKE = 3.0


class Session:
    """One connection to the broker, opened once; another one is another session."""

    def __init__(self, address: Address) -> None:
        self.core = Connection(address.credentials, address.params)
        self.transport = Transport(self.core, self._dispatch, self._on_lost)
        self._address = address
        self._channels: dict[int, Channel] = {}
        self._opened: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        self._close_confirmed = asyncio.Event()
        self._unblocked = asyncio.Event()
        self._unblocked.set()
        self.loss_reason: AmqpError | None = None
        self.blocked: str | None = None

    @property
    def is_open(self) -> bool:
        """True if the connection is open, as far as is known before the next heartbeat."""
        opened = self._opened.done() and not self._opened.cancelled()
        return opened and self.loss_reason is None and not self.core.closed

    async def open(self, *, timeout: float = 10.0) -> Opened:
        """Connect and shake hands. Raises OSError, AuthenticationRefused, ConnectionLost."""
        try:
            async with asyncio.timeout(timeout):
                await self.transport.connect(self._address.host, self._address.port, self._address.tls())
                return await self._opened
        except TimeoutError as error:
            why = f"expected {self._address} to open a connection within {timeout:.0f} s, got no answer"
            raise ConnectionLost(why) from error
        finally:
            if not self._opened.done() or self._opened.cancelled() or self._opened.exception() is not None:
                self.transport.abort(ConnectionLost("expected an open connection, got one that was given up"))

    async def channel(self, listener: ChannelListener | None = None) -> Channel:
        """Open a channel. Raises ConnectionLost, and ProtocolViolated if there are too many."""
        number = self.core.open_channel()
        channel = self._channels[number] = Channel(self.core, self.transport, number, listener)
        try:
            await channel.wait_opened()
        except asyncio.CancelledError:
            channel.abandon()
            raise
        return channel

    async def wait_unblocked(self) -> None:
        """Wait while the broker reads no publishes. Raises ConnectionLost."""
        await self._unblocked.wait()
        if self.loss_reason is not None:
            raise self.loss_reason

    async def wait_closed(self) -> None:
        """Wait until the connection is lost or closed; `loss_reason` has the reason."""
        await self.transport.lost.wait()

    async def close(self) -> None:
        """Close the connection; the broker has some seconds to confirm. May be called twice, or before
        open."""
        if self.is_open:
            self.core.close()
            self.transport.flush_soon()
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_TIMEOUT):
                    await self._close_confirmed.wait()
        if not self.transport.lost.is_set():
            self.transport.close_gracefully(
                ConnectionLost("expected an open connection, got one that we closed")
            )
            await self.transport.lost.wait()

    def _dispatch(self, events: Sequence[AmqpEvent]) -> None:
        channels = self._channels
        for event in events:
            match event:
                case Delivered() | Confirmed() | PublishReturned() | Replied() | ConsumerCancelled():
                    if (channel := channels.get(event.channel)) is not None:
                        channel.handle_event(event)
                case ChannelClosed():
                    if (channel := channels.pop(event.channel, None)) is not None:
                        channel.handle_event(event)
                case _:
                    self._handle_connection_event(event)
        for channel in list(channels.values()):
            channel.handle_read_complete()

    def _handle_connection_event(self, event: AmqpEvent) -> None:
        match event:
            case Opened() if not self._opened.done():
                self._opened.set_result(event)
            case Blocked():
                self.blocked = event.reason
                self._unblocked.clear()
            case Unblocked():
                self.blocked = None
                self._unblocked.set()
            case Closed():
                self._close_confirmed.set()
            case ConnectionFailed():
                self._fail(event.error)
            case _:
                pass

    def _on_lost(self, reason: Exception) -> None:
        self._fail(reason if isinstance(reason, AmqpError) else ConnectionLost(str(reason)))

    def _fail(self, error: AmqpError) -> None:
        if self.loss_reason is not None:
            return
        self.loss_reason = error
        if not self._opened.done():
            self._opened.set_exception(error)
            self._opened.exception()  # the task that opened it may be gone already
        self._close_confirmed.set()
        self._unblocked.set()
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.end(error)


async def open_session(addresses: Sequence[Address], *, timeout: float = 10.0) -> tuple[Session, Opened]:
    """Connect to the first of these nodes, in random order, that completes a handshake.

    The nodes share the timeout; each has at least 3 s. Raises AuthenticationRefused at once, and the error of
    the last node: OSError, ConnectionLost.
    """
    shuffled = random.sample(addresses, len(addresses))
    for number, address in enumerate(shuffled, start=1):
        session = Session(address)
        try:
            return session, await session.open(timeout=max(_MIN_HANDSHAKE, timeout / len(shuffled)))
        except AuthenticationRefused:
            raise
        except (OSError, AmqpError):
            if number == len(shuffled):
                raise
    raise ValueError("expected the address of at least one node, got none")
