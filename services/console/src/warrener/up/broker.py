"""The private broker of one `up`: started, watched, started again."""

import asyncio
import contextlib

from warrener.up.folder import DataFolder
from warrener.up.output import ConsoleOutput
from warrener_devservers import PrivateRabbitMQ, ServerError
from warrener_runtime.backoff import ExponentialBackoff

_LOOK_EVERY = 0.5  # seconds


class PrivateBroker:
    """A RabbitMQ node that nobody else uses. It keeps its port, as its data belongs to it."""

    def __init__(self, folder: DataFolder, output: ConsoleOutput) -> None:
        self._node = PrivateRabbitMQ(folder.broker, folder.broker_port())
        folder.save_broker_port(self._node.port)
        self._output = output

    @property
    def url(self) -> str:
        """Where it is, with user and password."""
        return self._node.url

    async def start(self) -> str:
        """Start it, and return its version. Raises ServerError with the end of its log."""
        await asyncio.to_thread(self._node.start)
        return await asyncio.to_thread(self._node.version)

    async def watch(self) -> None:
        """Start it again whenever it dies; for ever."""
        backoff = ExponentialBackoff(first=0.5, ceiling=30.0)
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            if self._node.running:
                continue
            self._output.event("died", "died; starting it again, with all it has kept", source="broker")
            try:
                await asyncio.to_thread(self._node.start)
                self._output.event("started", "is back", source="broker")
                backoff.succeeded()
            except ServerError as error:
                self._output.event("failed", str(error), source="broker")
                await asyncio.sleep(backoff.failed())

    async def stop(self, *, hurry: bool) -> None:
        """End it; it keeps what it has."""
        with contextlib.suppress(ServerError):
            await asyncio.to_thread(self._node.kill if hurry else self._node.stop)
