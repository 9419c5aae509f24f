"""Gives the core a socket and a clock: an asyncio protocol that joins the frames of a loop turn into one
write.

Small writes slow Python clients down on both sides, because the broker then works on small batches too. So
calls only mark that there is something to send, and the end of the loop turn writes it.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import cast

from warrener_amqp.connection import Connection
from warrener_amqp.errors import ConnectionLost
from warrener_amqp.events import AmqpEvent, Closed, ConnectionFailed, Opened

HIGH_WATER = 1024 * 1024  # pending bytes; with more `drain` waits
_ABORT_TIMEOUT = 5.0  # seconds; then the socket is closed, whatever the peer has not read

EventHandler = Callable[[Sequence[AmqpEvent]], None]


class Transport(asyncio.Protocol):
    """Carries one `Connection`.

    `on_events` receives the events of each piece of input. `on_lost` is called once, last, with the reason.
    """

    def __init__(
        self, core: Connection, on_events: EventHandler, on_lost: Callable[[Exception], None]
    ) -> None:
        self._core = core
        self._on_events = on_events
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._socket: asyncio.Transport | None = None
        self._heartbeat_timer: asyncio.TimerHandle | None = None
        self._abort_timer: asyncio.TimerHandle | None = None
        self._flushing = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._reason: Exception | None = None
        self.lost = asyncio.Event()

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Open the socket and send the protocol header. Raises OSError (also ssl.SSLError)."""
        await self._loop.create_connection(lambda: self, host, port, ssl=tls)

    # -- calls ---------------------------------------------------------------------------------------------

    def flush_soon(self) -> None:
        """Send the core's output when this loop turn ends."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send the core's output now."""
        self._flushing = False
        if (
            self._socket is not None
            and not self._socket.is_closing()
            and (pieces := self._core.data_to_send())
        ):
            self._socket.write(b"".join(pieces))

    async def drain(self) -> None:
        """Wait while the peer reads more slowly than we send. Raises ConnectionLost."""
        if not self._writable.is_set():
            await self._writable.wait()
        if self._reason is not None or self.lost.is_set():
            raise ConnectionLost(str(self._reason)) from self._reason

    def close_gracefully(self, reason: Exception) -> None:
        """Send the rest and close the socket; a peer that does not read it in time is cut off."""
        self._reason = self._reason or reason
        if self._socket is None:
            self._end()
            return
        self.flush()
        self._socket.close()
        if self._abort_timer is None:
            self._abort_timer = self._loop.call_later(_ABORT_TIMEOUT, self._socket.abort)

    def abort(self, reason: Exception) -> None:
        """Close the socket at once."""
        self._reason = self._reason or reason
        if self._socket is None:
            self._end()
        else:
            self._socket.abort()

    # -- asyncio's side ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast("asyncio.Transport", transport)  # uvloop's is one by shape alone
        if self.lost.is_set():  # aborted while it was being opened
            self._socket.abort()
            return
        self._socket.set_write_buffer_limits(high=HIGH_WATER)
        self.flush()

    def data_received(self, data: bytes) -> None:
        self._handle_events(self._core.receive(data))
        self.flush_soon()

    def eof_received(self) -> None:
        """The peer has closed its side; asyncio closes ours."""
        self._handle_events(self._core.receive_eof())

    def connection_lost(self, exc: Exception | None) -> None:
        if self._reason is None and exc is not None:
            self._reason = ConnectionLost(
                f"expected the connection to last, got: {exc or type(exc).__name__}"
            )
            self._reason.__cause__ = exc
            if isinstance(exc, ssl.SSLError):  # an alert about our certificate says more than an end
                self._on_lost(self._reason)
        self._handle_events(self._core.receive_eof())
        self._end()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # -- inside --------------------------------------------------------------------------------------------

    def _handle_events(self, events: list[AmqpEvent]) -> None:
        if not events:
            return
        self._on_events(events)
        first, last = events[0], events[-1]
        if isinstance(first, Opened) and first.heartbeat:
            self._run_heartbeat(first.heartbeat / 2)
        if isinstance(last, ConnectionFailed):
            self.close_gracefully(last.error)  # a broker that closed waits for Connection.CloseOk
        elif isinstance(last, Closed):
            self.close_gracefully(ConnectionLost("expected an open connection, got one that we closed"))

    def _run_heartbeat(self, seconds: float) -> None:
        # One tick at a time: a loop that was blocked counts one half beat, not all that it missed.
        if events := self._core.tick_heartbeat():
            self._on_events(events)
            for event in events:
                if isinstance(event, ConnectionFailed):
                    self.abort(event.error)
            return
        self.flush_soon()
        self._heartbeat_timer = self._loop.call_later(seconds, self._run_heartbeat, seconds)

    def _end(self) -> None:
        for timer in (self._heartbeat_timer, self._abort_timer):
            if timer is not None:
                timer.cancel()
        self._writable.set()
        if not self.lost.is_set():
            self.lost.set()
            self._on_lost(
                self._reason or ConnectionLost("expected an open connection, got one that is closed")
            )
