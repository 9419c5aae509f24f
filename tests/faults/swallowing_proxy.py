"""A proxy that swallows deliveries: the connection lives, the channel lives, the consumer is there, and
nothing comes. It reads AMQP frames on their way from the broker; all else it passes on as it is."""

import socket
import struct
import threading
from contextlib import suppress

_METHOD, _HEADER, _BODY = 1, 2, 3
_DELIVER = struct.pack("!HH", 60, 60)
_HEAD = 7  # bytes: type, channel, size


class SwallowingProxy:
    """Stands between one client and a broker, in threads of its own."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._exchange = b""
        self._left = 0
        self._sockets: list[socket.socket] = [self._server]
        threading.Thread(target=self._accept, daemon=True).start()

    def swallow(self, exchange: str, deliveries: int) -> None:
        """The next so many deliveries of what was published to `exchange` do not arrive."""
        self._exchange, self._left = exchange.encode(), deliveries

    @property
    def swallowed(self) -> bool:
        """Whether all of them are gone."""
        return self._left == 0

    def close(self) -> None:
        """End every connection."""
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                broker = socket.create_connection(("127.0.0.1", self._target_port))
                self._sockets += [client, broker]
                threading.Thread(target=_pump, args=(client, broker), daemon=True).start()
                threading.Thread(target=self._filter, args=(broker, client), daemon=True).start()

    def _filter(self, broker: socket.socket, client: socket.socket) -> None:
        swallowing: set[int] = set()
        with suppress(OSError), broker.makefile("rb") as frames:
            while len(head := frames.read(_HEAD)) == _HEAD:
                kind, channel, size = struct.unpack("!BHI", head)
                rest = frames.read(size + 1)
                if kind == _METHOD:
                    swallowing.discard(channel)
                    if rest.startswith(_DELIVER) and self._left and self._exchange in rest:
                        self._left -= 1
                        swallowing.add(channel)
                if channel not in swallowing or kind not in (_METHOD, _HEADER, _BODY):
                    client.sendall(head + rest)
        with suppress(OSError):
            client.shutdown(socket.SHUT_WR)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
