"""A message comes in several frames: method, content header, bodies. One of these a channel puts them
together."""

import struct
from collections.abc import Callable
from typing import Any

from warrener_amqp.errors import FrameMalformed, ProtocolViolated
from warrener_amqp.events import Delivered, PublishReturned
from warrener_amqp.properties import Properties, read_properties

_HEAD = struct.Struct(">HHQ")

Content = Delivered | PublishReturned
MakeEvent = Callable[[tuple[Any, ...]], Content]

_BASIC = 60
_MAX_BODY_BYTES = 512 * 1024 * 1024  # bytes; what RabbitMQ can be told to take at most


class ContentAssembler:
    """The message that is on its way on one channel; it holds at most one."""

    __slots__ = ("_arguments", "_make", "_parts", "_properties", "_received_bytes", "_size")

    def __init__(self) -> None:
        self._make: MakeEvent | None = None
        self._arguments: tuple[object, ...] = ()
        self._properties: Properties | None = None
        self._parts: list[bytes] = []
        self._received_bytes = self._size = 0

    def begin(self, make: MakeEvent, arguments: tuple[object, ...]) -> None:
        """A deliver or a return has come, its content follows: then `make` is given all of it."""
        if self._make is not None:
            raise ProtocolViolated("expected the content of a message, got another message")
        self._make = make
        self._arguments = arguments

    @property
    def is_assembling(self) -> bool:
        """Whether a content is awaited, so that no method may come."""
        return self._make is not None

    def header(self, payload: bytes) -> Content | None:
        """The content header; the whole message if it has no body."""
        if self._make is None or self._properties is not None:
            raise ProtocolViolated("expected no content header now, got one")
        if len(payload) < _HEAD.size + 2:
            raise FrameMalformed(f"expected a content header of 14 bytes or more, got {len(payload)}")
        class_id, _, self._size = _HEAD.unpack_from(payload)
        if class_id != _BASIC or self._size > _MAX_BODY_BYTES:
            raise FrameMalformed(f"expected a message, got class {class_id} with {self._size} bytes")
        self._properties = read_properties(payload, _HEAD.size)
        return None if self._size else self._done(b"")

    def body(self, payload: bytes) -> Content | None:
        """A piece of the body; the whole message if it was the last one."""
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
