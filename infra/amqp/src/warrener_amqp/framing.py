"""Splits bytes into frames, however they arrive.

A frame is `type (1) channel (2) size (4) payload (size) 0xCE` (AMQP 0-9-1, 2.3.5).
"""

import struct
from collections.abc import Callable, Iterator

from warrener_amqp.errors import FrameMalformed

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
OVERHEAD = 8
FRAME_END = 0xCE
FRAME_MIN = 4096  # every peer accepts frames of this size

_HEAD = struct.Struct(">BHI")
_FRAME_TYPES = frozenset({METHOD, HEADER, BODY, HEARTBEAT})

Frame = tuple[int, int, bytes]
"""Type, channel, payload."""

FastPath = Callable[[bytes, int], int]


class FrameParser:
    """Collects bytes and yields whole frames.

    The parser holds at most one frame and joins its pieces once, so a frame that arrives byte by byte is
    copied as often as one that arrives whole.
    """

    __slots__ = ("_missing", "_pieces", "frame_max")

    def __init__(self, frame_max: int) -> None:
        self.frame_max = frame_max
        self._pieces: list[bytes] = []
        self._missing = 0  # bytes needed before the held ones can be read

    def feed(self, data: bytes, fast_path: FastPath | None = None) -> Iterator[Frame]:
        """Yield the frames that `data` completes; `frame_max` may change between two of them.

        Before each method `fast_path` may consume frames itself: it receives the bytes and the start of the
        frame, and returns the position to continue at.

        Raises FrameMalformed, after which nothing more can be read.
        """
        if self._pieces:
            self._pieces.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._pieces)
            self._pieces.clear()
        at, end = 0, len(data)
        while end - at >= _HEAD.size:
            if fast_path is not None and data[at] == METHOD:
                next_at = fast_path(data, at)
                if next_at != at:
                    at = next_at
                    continue
            kind, channel, size = _HEAD.unpack_from(data, at)
            if kind not in _FRAME_TYPES or size + OVERHEAD > self.frame_max:
                raise FrameMalformed(_describe_malformed(data, at, kind, size, self.frame_max))
            closing = at + 7 + size
            if closing >= end:
                self._buffer(data[at:], closing + 1 - end)
                return
            if data[closing] != FRAME_END:
                raise FrameMalformed(f"expected 0xCE at the end of a frame, got {data[closing]:#x}")
            yield kind, channel, data[at + 7 : closing]
            at = closing + 1
        if at < end:
            self._buffer(data[at:], _HEAD.size - (end - at))

    def _buffer(self, piece: bytes, missing: int) -> None:
        self._pieces.append(piece)
        self._missing = missing


def _describe_malformed(data: bytes, at: int, kind: int, size: int, frame_max: int) -> str:
    if data[at : at + 4] == b"AMQP":
        spoken = ".".join(str(part) for part in data[at + 5 : at + 8])
        return f"expected a broker that speaks AMQP 0.9.1, got one that speaks {spoken}; correct the URL"
    if kind not in _FRAME_TYPES:
        return f"expected a frame of type 1, 2, 3 or 8, got {kind}; look whether this is an AMQP port"
    return f"expected frames of at most {frame_max} bytes, got one of {size + OVERHEAD}"


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return b"%b%b\xce" % (_HEAD.pack(kind, channel, len(payload)), payload)


HEARTBEAT_FRAME = frame(HEARTBEAT, 0, b"")
