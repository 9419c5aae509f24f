"""The connection that carries `listen` and owns exclusive queues."""

import asyncio
from functools import partial

from warrener_runtime.bus.rabbit.declarations import Declarations
from warrener_runtime.bus.rabbit.lanes import Lane
from warrener_runtime.bus.rabbit.link import Link
from warrener_runtime.bus.rabbit.wire import Wire


class ListeningLink:
    """The consuming connection itself where the lane is aio-pika's; else one of its own, opened when
    needed."""

    def __init__(self, url: str, name: str, lane: Lane, consuming: Link, declarations: Declarations) -> None:
        self._consuming = consuming
        self._declarations = declarations
        self._own: Link | None = None
        self._starting = asyncio.Lock()
        self._started = False
        if not lane.listens:
            connect = partial(_connect_aiormq, url, f"{name} listens")
            self._own = Link(connect, "listening", declarations.restore_all, lane.where(url))

    async def started(self) -> Link:
        """The link; a connection of its own is opened with the first call."""
        if self._own is None:
            return self._consuming
        async with self._starting:
            if not self._started:
                await self._own.start()
                self._started = True
        return self._own

    async def prepare_consuming(self, wire: Wire) -> None:
        """Declare again what belongs to a new consuming connection."""
        if self._own is None:
            await self._declarations.restore_all(wire)
        else:
            await self._declarations.restore_shared(wire)

    async def close(self) -> None:
        """Disconnect."""
        if self._own is not None:
            await self._own.close()


async def _connect_aiormq(url: str, name: str) -> Wire:
    from warrener_runtime.bus.rabbit.aiormq_wire import connect_aiormq  # noqa: PLC0415 - who listens pays

    return await connect_aiormq(url, name)
