"""A proxy that swallows deliveries: the connection lives, the channel lives, the consumer is there, and
nothing comes. It reads AMQP frames on their way from the broker; all else it passes on as it is."""

import struct
from contextlib import suppress

from tests.faults.threaded_proxy import Link, ThreadedProxy

_METHOD, _HEADER, _BODY = 1, 2, 3
_DELIVER = struct.pack("!HH", 60, 60)
_HEAD = 7  # bytes: type, channel, size


class SwallowingProxy(ThreadedProxy):
    """Stands between one client and a broker."""

    _exchange, _left = b"", 0

    def swallow(self, exchange: str, deliveries: int) -> None:
        """The next so many deliveries of what was published to `exchange` do not arrive."""
        self._exchange, self._left = exchange.encode(), deliveries

    @property
    def swallowed(self) -> bool:
        """Whether all of them are gone."""
        return self._left == 0

    def _down(self, link: Link) -> None:
        swallowing: set[int] = set()
        with suppress(OSError), link.server.makefile("rb") as frames:
            while len(head := frames.read(_HEAD)) == _HEAD:
                kind, channel, size = struct.unpack("!BHI", head)
                rest = frames.read(size + 1)
                if kind == _METHOD:
                    swallowing.discard(channel)
                    if rest.startswith(_DELIVER) and self._left and self._exchange in rest:
                        self._left -= 1
                        swallowing.add(channel)
                if channel not in swallowing or kind not in (_METHOD, _HEADER, _BODY):
                    link.client.sendall(head + rest)
        self._end(link, link.client)
