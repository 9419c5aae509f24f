"""The connection that carries `listen` and owns exclusive queues."""

import asyncio
from functools import partial

from warrener_runtime.bus.rabbit.broker_client import BrokerClient
from warrener_runtime.bus.rabbit.declared_topology import DeclaredTopology
from warrener_runtime.bus.rabbit.lanes import Lane
from warrener_runtime.bus.rabbit.reconnecting_connection import ReconnectingConnection


class ListenConnection:
    """The consuming connection itself where the lane is aio-pika's; else one of its own, opened when
    needed."""

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
        """The link; a connection of its own is opened with the first call."""
        if self._own is None:
            return self._consume_connection
        async with self._starting:
            if not self._started:
                await self._own.start()
                self._started = True
        return self._own

    async def prepare_consuming(self, client: BrokerClient) -> None:
        """Declare again what belongs to a new consuming connection."""
        if self._own is None:
            await self._declared.restore_all(client)
        else:
            await self._declared.restore_shared(client)

    async def close(self) -> None:
        """Disconnect."""
        if self._own is not None:
            await self._own.close()


async def _connect_aiormq(url: str, name: str) -> BrokerClient:
    from warrener_runtime.bus.rabbit.aiormq_client import connect_aiormq  # noqa: PLC0415 - who listens pays

    return await connect_aiormq(url, name)
