"""The client library of each connection: the lane of the hot queues, and the one that carries `listen`."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from warrener_runtime.bus.rabbitmq.client import BrokerClient
from warrener_runtime.bus.rabbitmq.connection import ReconnectingConnection
from warrener_runtime.bus.rabbitmq.topology import DeclaredTopology

Connect = Callable[[str, str], Awaitable[BrokerClient]]
"""Connects to a URL under a name. Raises BusCredentialsRefused, BrokerConnectionLost."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A client library for the hot queues. `supports_listen` is true if FastStream can use its
    connections."""

    connect: Connect
    supports_listen: bool

    def broker_address(self, url: str) -> str:
        """Describe the broker at a URL, without credentials and parameters."""
        parts = urlsplit(url)
        return f"{parts.hostname}:{parts.port or ''}{parts.path}"


def aio_pika_lane() -> Lane:
    """aiormq, under aio-pika."""
    from warrener_runtime.bus.rabbitmq.aiormq.client import connect_aiormq  # noqa: PLC0415 - loaded only if chosen

    return Lane(connect_aiormq, supports_listen=True)


def lean_lane() -> Lane:
    """Our own."""
    from warrener_runtime.bus.rabbitmq.lean import connect_lean  # noqa: PLC0415 - loaded only if chosen

    return Lane(connect_lean, supports_listen=False)


class ListenConnection:
    """The connection that carries `listen` and owns exclusive queues: the consuming one on the lane
    `aio-pika`, else one of its own, opened when needed."""

    def __init__(
        self, url: str, name: str, lane: Lane, consuming: ReconnectingConnection, declared: DeclaredTopology
    ) -> None:
        self._consume_connection = consuming
        self._declared = declared
        self._own: ReconnectingConnection | None = None
        self._starting = asyncio.Lock()
        self._started = False
        if not lane.supports_listen:
            connect = partial(_connect_aiormq, url, f"{name} listens")
            self._own = ReconnectingConnection(
                connect, "listening", declared.restore_all, lane.broker_address(url)
            )

    async def ensure_started(self) -> ReconnectingConnection:
        """Return the connection; the first call opens one of its own."""
        if self._own is None:
            return self._consume_connection
        async with self._starting:
            if not self._started:
                await self._own.start()
                self._started = True
        return self._own

    async def prepare_consuming(self, client: BrokerClient) -> None:
        """Declare the topology of a new consuming connection."""
        if self._own is None:
            await self._declared.restore_all(client)
        else:
            await self._declared.restore_shared(client)

    async def close(self) -> None:
        if self._own is not None:
            await self._own.close()


async def _connect_aiormq(url: str, name: str) -> BrokerClient:
    from warrener_runtime.bus.rabbitmq.aiormq.client import connect_aiormq  # noqa: PLC0415 - loaded only if needed

    return await connect_aiormq(url, name)
