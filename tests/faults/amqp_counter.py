"""A relay between clients and a broker that counts connections and AMQP methods."""

import asyncio
import contextlib
from collections import Counter

_METHOD, _FRAME_HEAD = 1, 7
_CHEAP = {(60, 40), (60, 80)}  # publish and acknowledge, which have no reply


class AmqpCounter:
    """Relays to a port. `calls` are the methods that clients sent and the broker had to answer."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self.port = 0
        self.connections = 0
        self.methods = Counter[tuple[int, int]]()

    @property
    def calls(self) -> int:
        return sum(count for method, count in self.methods.items() if method not in _CHEAP)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        await asyncio.gather(self._count(reader, up_writer), _relay(up_reader, writer))

    async def _count(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            writer.write(await reader.readexactly(8))  # the protocol's header
            while True:
                head = await reader.readexactly(_FRAME_HEAD)
                rest = await reader.readexactly(int.from_bytes(head[3:7], "big") + 1)
                if head[0] == _METHOD:
                    method = int.from_bytes(rest[:2], "big"), int.from_bytes(rest[2:4], "big")
                    self.methods[method] += 1
                writer.write(head + rest)
                await writer.drain()
        writer.close()


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
