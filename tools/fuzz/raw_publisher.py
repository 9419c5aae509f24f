"""An AMQP publisher that sends what no library encodes: properties and bodies go out as they are."""

import socket
import struct
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from pamqp import commands, exceptions, frame
from pamqp.base import Frame

_END = b"\xce"
_CHUNK = 100_000  # bytes of a body in one frame
_TIMEOUT = 60.0  # seconds; the broker stops reading a publisher that is too fast


class Refused(Exception):
    """The broker closed the channel or the connection over a message."""


class RawPublisher:
    """One connection with one channel. After `Refused` make another."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=_TIMEOUT)
        self._received = b""
        self._socket.sendall(b"AMQP\x00\x00\x09\x01")
        self._expect(commands.Connection.Start)
        secret = f"\0{parts.username}\0{parts.password}"
        self._send(commands.Connection.StartOk({}, "PLAIN", secret, "en_US"), 0)
        self._expect(commands.Connection.Tune)
        self._send(commands.Connection.TuneOk(10, 131_072, 0), 0)
        self._send(commands.Connection.Open("/"), 0)
        self._expect(commands.Connection.OpenOk)
        self._send(commands.Channel.Open(), 1)
        self._expect(commands.Channel.OpenOk)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def publish(self, exchange: str, key: str, properties: bytes, body: bytes) -> None:
        """Send a message. Raises Refused, at the latest by `settle`, and OSError."""
        header = struct.pack(">HHQ", 60, 0, len(body)) + properties
        method = frame.marshal(commands.Basic.Publish(0, exchange, key), 1)
        bodies = (body[at : at + _CHUNK] for at in range(0, len(body), _CHUNK))
        self._socket.sendall(method + _framed(2, header) + b"".join(_framed(3, one) for one in bodies))

    def settle(self) -> None:
        """Return when the broker has read all that was sent. Raises Refused and OSError."""
        self._send(commands.Basic.Qos(prefetch_count=1), 1)
        self._expect(commands.Basic.QosOk)

    def _send(self, method: Frame, channel: int) -> None:
        self._socket.sendall(frame.marshal(method, channel))

    def _expect(self, kind: type[Frame]) -> None:
        while True:
            try:
                taken, _, found = frame.unmarshal(self._received)
            except exceptions.UnmarshalingException:
                if not (more := self._socket.recv(65_536)):
                    raise Refused("the broker closed the connection") from None
                self._received += more
                continue
            self._received = self._received[taken:]
            if isinstance(found, (commands.Channel.Close, commands.Connection.Close)):
                raise Refused(found.reply_text)
            if isinstance(found, kind):
                return


def _framed(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, 1, len(payload)) + payload + _END
