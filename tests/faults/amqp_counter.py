"""A relay between clients and a broker that counts connections and AMQP methods."""

import asyncio
import contextlib
from collections import Counter

from tests.faults.tcp_proxy import Pipe, TcpProxy

_METHOD, _FRAME_HEAD = 1, 7
_CHEAP = {(60, 40), (60, 80)}  # publish and acknowledge, which have no reply


class AmqpCounter(TcpProxy):
    """`calls` are the methods that clients sent and the broker had to answer."""

    def __init__(self, target_port: int) -> None:
        super().__init__(target_port)
        self.connections = 0
        self.methods = Counter[tuple[int, int]]()

    @property
    def calls(self) -> int:
        return sum(count for method, count in self.methods.items() if method not in _CHEAP)

    async def _up(self, pipe: Pipe, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
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
