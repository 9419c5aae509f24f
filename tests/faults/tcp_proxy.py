"""A TCP proxy that breaks connections in the ways networks do."""

import asyncio
import contextlib
from collections.abc import Callable

from warrener_devservers.process import free_block


class TcpProxy:
    """Stands between a client and a server. Faults concern the connections that there are when they begin."""

    def __init__(self, target_port: int | Callable[[], int]) -> None:
        """`target_port`: or what chooses one for each new connection."""
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._pipes: list[Pipe] = []
        self.port = 0
        self.delay = 0.0
        """Seconds by which each piece of data is held up on its way, in both directions."""

    async def start(self) -> None:
        """Accept connections, on the port it had before if it had one."""
        self.port = self.port or free_block((0,))  # which no outgoing connection takes while it is stopped
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def stop(self) -> None:
        """Refuse new connections and reset all others."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.reset()

    async def reset(self) -> None:
        """RST to both sides of every connection."""
        pipes, self._pipes = self._pipes, []
        for pipe in pipes:
            await pipe.reset()

    def blackhole(self) -> None:
        """Every connection stays open and carries nothing any more: the half-open socket."""
        for pipe in self._pipes:
            pipe.carries = False

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = self._target_port
        try:
            up_reader, up_writer = await asyncio.open_connection(
                "127.0.0.1", target if isinstance(target, int) else target()
            )
        except OSError:
            writer.transport.abort()
            return
        pipe = Pipe(self, writer, up_writer)
        self._pipes.append(pipe)
        await asyncio.gather(self._up(pipe, reader, up_writer), pipe.pump(up_reader, writer))

    async def _up(self, pipe: "Pipe", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await pipe.pump(reader, writer)


class Pipe:
    """One connection, both ways."""

    def __init__(self, proxy: TcpProxy, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._ends = (client, server)
        self.carries = True

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry bytes one way until an end closes."""
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self._proxy.delay:
                    await asyncio.sleep(self._proxy.delay)
                if self.carries:
                    writer.write(data)
                    await writer.drain()
        if self.carries:
            writer.close()

    async def reset(self) -> None:
        """Abort both ends."""
        self.carries = False
        for end in self._ends:
            end.transport.abort()
            with contextlib.suppress(OSError):
                await end.wait_closed()
