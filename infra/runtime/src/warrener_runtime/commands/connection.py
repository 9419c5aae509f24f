"""A connection that receives commands: one broker object of FastStream, from its start to its replacement.

- aio-pika restores a lost channel or connection in tasks that wait without end if the restored one is lost
  too. Here the first loss ends the whole connection.
- Pending calls of a lost connection end with CancelledError, although nobody cancelled them. So connections
  are opened and closed in tasks that nobody cancels.
"""

import asyncio
import contextlib
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import aio_pika
from faststream.rabbit import RabbitBroker, RabbitQueue

from warrener_runtime.lifecycle.components import is_being_cancelled

_HEARTBEAT = 10  # seconds
_CHECK_TIMEOUT = 5.0
_CLOSE_TIMEOUT = 5.0


class CommandConnection:
    """One broker object and its connection; used once."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.over = asyncio.Event()
        self.is_lost = False
        self.answers = False
        self._broker: RabbitBroker | None = None
        self._queue: aio_pika.RobustQueue | None = None
        self._connecting: asyncio.Task[aio_pika.RobustConnection] | None = None
        self._closing: asyncio.Task[None] | None = None

    async def open(self, broker: RabbitBroker, queue: RabbitQueue) -> None:
        """Connect and consume `queue`."""
        self._broker = broker
        self._connecting = asyncio.create_task(broker.connect(), name="connect for commands")
        connection = await asyncio.shield(self._connecting)
        connection.close_callbacks.add(self._on_loss)
        await broker.start()
        self._queue = await broker.declare_queue(queue)
        self._queue.channel.close_callbacks.add(self._on_loss)
        self.answers = True

    async def check(self) -> None:
        """Set `answers`: True if the broker says in time, on the consuming channel, that the queue exists."""
        assert self._queue is not None, "expected an open connection"
        try:
            async with asyncio.timeout(_CHECK_TIMEOUT):
                await self._queue.declare(timeout=_CHECK_TIMEOUT)
        except (Exception, asyncio.CancelledError) as error:  # the second: the connection was lost
            if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                raise
            self.answers = False
        else:
            self.answers = not self.over.is_set()

    async def close(self) -> None:
        """Close the connection, broken or not; what is unacknowledged goes back. Waits a bounded time."""
        await asyncio.wait({self._begin_to_close()}, timeout=_CLOSE_TIMEOUT)

    async def _on_loss(self, *_: object) -> None:
        """Close before aio-pika begins to restore, which it does right after this callback."""
        self.is_lost = self.is_lost or not self.over.is_set()
        self._begin_to_close()
        await asyncio.sleep(0)

    def _begin_to_close(self) -> asyncio.Task[None]:
        self.over.set()
        self.answers = False
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="close a connection for commands")
        return self._closing

    async def _close(self) -> None:
        if self._connecting is None or self._broker is None:
            return
        # Pending calls on the connection end with CancelledError; this task itself is never cancelled.
        with contextlib.suppress(Exception, asyncio.CancelledError):
            connection = await self._connecting
            await connection.close()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await self._broker.stop()


def complete_url(url: str, name: str) -> str:
    """Return the URL with what it leaves out: the heartbeat, and the name that operators see."""
    parts = urlsplit(url)
    query = {"heartbeat": str(_HEARTBEAT), "name": name, **dict(parse_qsl(parts.query))}
    return urlunsplit(parts._replace(query=urlencode(query)))
