"""Questions to a private RabbitMQ node, answered by the node itself over a socket in its folder."""

import os
import socket
import struct
import threading
from importlib import resources
from pathlib import Path

from warrener_runtime.servers.errors import ServerFailed

SOCKET = "control"
SCRIPT = "control.es"
_LENGTH = struct.Struct(">I")
_PATIENCE = 30.0  # seconds


def script() -> str:
    """The Erlang that answers; RabbitMQ evaluates it when it has booted."""
    return resources.files("warrener_runtime.servers").joinpath(SCRIPT).read_text(encoding="utf-8")


class ErlangControl:
    """Evaluates Erlang inside the node in `folder`. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None

    def evaluate(self, expressions: str) -> str:
        """The value of the last expression, as Erlang writes it; ServerFailed if it raised."""
        with self._lock:
            try:
                answer = self._request(expressions)
            except OSError as error:
                self._close()
                raise ServerFailed(
                    f"expected an answer of the node in {self._folder}, got {error}; is it running?"
                ) from error
        if not answer.startswith("+"):
            raise ServerFailed(f"expected the node to evaluate {expressions!r}, got {answer[1:]}")
        return answer[1:]

    def close(self) -> None:
        """Let the connection go; the next question makes a new one."""
        with self._lock:
            self._close()

    def _request(self, expressions: str) -> str:
        if self._connection is None:
            self._connection = self._connect()
        body = f"{expressions.rstrip().rstrip('.')}.".encode()
        self._connection.sendall(_LENGTH.pack(len(body)) + body)
        (length,) = _LENGTH.unpack(self._read(self._connection, _LENGTH.size))
        return self._read(self._connection, length).decode()

    def _connect(self) -> socket.socket:
        # A socket's path may have 107 bytes, and the folder's may have more; by its descriptor it is short.
        folder = os.open(self._folder, os.O_PATH | os.O_DIRECTORY)
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(_PATIENCE)
            connection.connect(f"/proc/self/fd/{folder}/{SOCKET}")
        except BaseException:
            connection.close()
            raise
        finally:
            os.close(folder)
        return connection

    def _read(self, connection: socket.socket, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = connection.recv(size - len(data))
            if not chunk:
                raise ConnectionResetError("the end of the connection")
            data += chunk
        return bytes(data)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
