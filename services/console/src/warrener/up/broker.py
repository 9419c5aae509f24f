"""The private broker of one `up`: started, watched, started again."""

import asyncio
import contextlib

from warrener.up.folder import DataFolder
from warrener.up.voice import Voice
from warrener_runtime.backoff import ExponentialBackoff
from warrener_runtime.servers import PrivateRabbitMQ, ServerError

_LOOK_EVERY = 0.5  # seconds


class Broker:
    """A RabbitMQ node that nobody else uses. It keeps its port, as its data belongs to it."""

    def __init__(self, folder: DataFolder, voice: Voice) -> None:
        self._node = PrivateRabbitMQ(folder.broker, folder.broker_port())
        folder.keep_broker_port(self._node.port)
        self._voice = voice

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
            self._voice.event("died", "died; starting it again, with all it has kept", of="broker")
            try:
                await asyncio.to_thread(self._node.start)
                self._voice.event("started", "is back", of="broker")
                backoff.succeeded()
            except ServerError as error:
                self._voice.event("failed", str(error), of="broker")
                await asyncio.sleep(backoff.failed())

    async def stop(self, *, hurry: bool) -> None:
        """End it; it keeps what it has."""
        with contextlib.suppress(ServerError):
            await asyncio.to_thread(self._node.kill if hurry else self._node.stop)
