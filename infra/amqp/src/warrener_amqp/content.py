"""Messages from their frames: method, content header, bodies.

Most deliveries lie whole in the buffer and are read there at once. All others (cut off, in several bodies,
malformed) are assembled frame by frame, which reports what is wrong with them; so each error is raised in one
place.
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from warrener_amqp import codec
from warrener_amqp.errors import FrameMalformed, ProtocolViolated
from warrener_amqp.events import Delivered, PublishReturned
from warrener_amqp.framing import BODY, FRAME_END, HEADER, METHOD, OVERHEAD
from warrener_amqp.properties import Properties, read_properties

_METHOD = struct.Struct(">BHII")  # a frame's head and the number of its method
_HEADER = struct.Struct(">BBHIHHQ")  # the end of the frame before, a frame's head, class, weight, body's size
_BODY = struct.Struct(">BBHI")  # the end of the frame before, a frame's head
_CONTENT_HEADER = struct.Struct(">HHQ")
_HEADER_PAYLOAD = 12  # bytes of the content header before the properties
_BASIC = 60
_MAX_BODY_BYTES = 512 * 1024 * 1024  # bytes; the limit of RabbitMQ's own configuration

Content = Delivered | PublishReturned
MakeEvent = Callable[[tuple[Any, ...]], Content]


def read_delivery(data: bytes, at: int, frame_max: int) -> tuple[Delivered, int] | None:
    """Read the delivery that begins at `at`; return it and its end, or None if it must be read frame by
    frame."""
    max_payload = frame_max - OVERHEAD
    try:
        kind, channel, size, method = _METHOD.unpack_from(data, at)
        head_at = at + 7 + size
        end, head_kind, head_channel, head_size, class_id, _, length = _HEADER.unpack_from(data, head_at)
        if (
            method != codec.DELIVER
            or kind != METHOD
            or end != FRAME_END
            or head_kind != HEADER
            or head_channel != channel
            or class_id != _BASIC
        ):
            return None
        body_at = head_at + OVERHEAD + head_size
        end, body_kind, body_channel, body_size = _BODY.unpack_from(data, body_at)
        body_at += OVERHEAD
        over = body_at + length
        if (
            data[over] != FRAME_END
            or end != FRAME_END
            or body_kind != BODY
            or body_channel != channel
            or body_size != length
            or not 0 < length <= max_payload
            or not _HEADER_PAYLOAD + 2 <= head_size <= max_payload
            or size > max_payload
        ):
            return None
        tag_at = at + 12 + data[at + 11]
        consumer = codec.decode_short_cached(data[at + 12 : tag_at])
        exchange, routing_key = _address(data[tag_at + 9 : head_at])
        tag = int.from_bytes(data[tag_at : tag_at + 8], "big")
    except (IndexError, struct.error, FrameMalformed):
        return None
    properties = read_properties(data[head_at + 8 : head_at + 8 + head_size], _HEADER_PAYLOAD)
    redelivered = bool(data[tag_at + 8] & 1)
    body = data[body_at:over]
    return _made((channel, consumer, tag, redelivered, exchange, routing_key, properties, body)), over + 1


@lru_cache(maxsize=4096)
def _address(raw: bytes) -> tuple[str, str]:
    """Decode exchange and routing key, the end of the method. Few addresses carry most messages."""
    key_at = raw[0] + 2
    if key_at + raw[key_at - 1] != len(raw):
        raise FrameMalformed(f"expected exchange and routing key, got {raw[:60]!r}")
    return codec.decode_short(raw[1 : key_at - 1]), codec.decode_short(raw[key_at:])


_made = Delivered._make


class ContentAssembler:
    """Assembles the message that arrives on one channel, one at a time."""

    __slots__ = ("_arguments", "_make", "_parts", "_properties", "_received_bytes", "_size")

    def __init__(self) -> None:
        self._make: MakeEvent | None = None
        self._arguments: tuple[object, ...] = ()
        self._properties: Properties | None = None
        self._parts: list[bytes] = []
        self._received_bytes = self._size = 0

    def begin(self, make: MakeEvent, arguments: tuple[object, ...]) -> None:
        """Begin with the arguments of a deliver or a return; `make` gets them with the content."""
        if self._make is not None:
            raise ProtocolViolated("expected the content of a message, got another message")
        self._make = make
        self._arguments = arguments

    @property
    def is_assembling(self) -> bool:
        """True if a content is awaited, so that no method may come."""
        return self._make is not None

    def header(self, payload: bytes) -> Content | None:
        """Add the content header; return the message if it has no body."""
        if self._make is None or self._properties is not None:
            raise ProtocolViolated("expected no content header now, got one")
        if len(payload) < _CONTENT_HEADER.size + 2:
            raise FrameMalformed(f"expected a content header of 14 bytes or more, got {len(payload)}")
        class_id, _, self._size = _CONTENT_HEADER.unpack_from(payload)
        if class_id != _BASIC or self._size > _MAX_BODY_BYTES:
            raise FrameMalformed(f"expected a message, got class {class_id} with {self._size} bytes")
        self._properties = read_properties(payload, _CONTENT_HEADER.size)
        return None if self._size else self._done(b"")

    def body(self, payload: bytes) -> Content | None:
        """Add a piece of the body; return the message if it was the last one."""
        if self._properties is None or not payload:
            raise ProtocolViolated(f"expected no body frame of {len(payload)} bytes now, got one")
        self._received_bytes += len(payload)
        if self._received_bytes < self._size:
            self._parts.append(payload)
            return None
        if self._received_bytes > self._size:
            raise ProtocolViolated(f"expected a body of {self._size} bytes, got more")
        if not self._parts:
            return self._done(payload)
        self._parts.append(payload)
        return self._done(b"".join(self._parts))

    def _done(self, body: bytes) -> Content:
        make, properties = self._make, self._properties
        assert make is not None
        self._make = self._properties = None
        self._received_bytes = 0
        self._parts.clear()
        return make((*self._arguments, properties, body))
