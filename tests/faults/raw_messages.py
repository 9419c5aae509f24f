"""Messages with any properties. Client libraries refuse to write most of these; brokers pass them on."""

import asyncio
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pamqp import commands

from warrener_amqp.address import parse_address
from warrener_amqp.channel import ChannelListener
from warrener_amqp.codec import encode_content, encode_publish
from warrener_amqp.errors import AmqpError
from warrener_amqp.events import Confirmed
from warrener_amqp.session import Session

_HEADERS, _TIMESTAMP, _TYPE = 1 << 13, 1 << 6, 1 << 5
_FRAME_MAX = 131_072


def _flagged(flags: int, *parts: bytes) -> bytes:
    return struct.pack(">H", flags) + b"".join(parts)


def _long(raw: bytes) -> bytes:
    return struct.pack(">I", len(raw)) + raw


def _table(*fields: tuple[bytes, bytes]) -> bytes:
    return _long(b"".join(bytes([len(name)]) + name + value for name, value in fields))


def _headers(*fields: tuple[bytes, bytes]) -> bytes:
    return _flagged(_HEADERS, _table(*fields))


def _nested(kind: bytes, depth: int) -> bytes:
    value = b"V"
    for _ in range(depth):
        value = b"A" + _long(value) if kind == b"A" else b"F" + _table((b"k", value))
    return value


_TEXT = b"S" + _long("Grüße".encode())
_EVERY_TYPE = (
    (b"boolean", b"t\1"),
    (b"bytes", b"x" + _long(b"\xff\0")),
    (b"decimal", b"D\xff\xff\xff\xff\xff"),
    (b"double", b"d" + struct.pack(">d", 1.5)),
    (b"float", b"f" + struct.pack(">f", 2.5)),
    (b"int8", b"b\xff"),
    (b"int16", b"s\xff\xff"),
    (b"int32", b"I\xff\xff\xff\xff"),
    (b"int64", b"l" + struct.pack(">q", -(2**63))),
    (b"table", b"F" + _table((b"inner", _TEXT), (b"list", b"A" + _long(b"V" + _TEXT)))),
    (b"text", _TEXT),
    (b"time", b"T" + struct.pack(">Q", 1_700_000_000)),
    (b"void", b"V"),
)

TIME_AFTER_9999 = _flagged(_TIMESTAMP, struct.pack(">Q", 2**62))
TYPE_THAT_IS_NO_TEXT = _flagged(_TYPE, b"\3\xff\xfe\0")
POISON: Mapping[str, bytes] = {
    "a time after the year 9999": TIME_AFTER_9999,
    "a header with such a time": _headers((b"when", b"T" + struct.pack(">Q", 2**62))),
    "such a time in a table in a list": _headers(
        (b"deep", b"A" + _long(b"F" + _table((b"when", b"T" + struct.pack(">Q", 2**63)))))
    ),
    "headers of every type": _headers(*_EVERY_TYPE),
    "a list nested 3,000 times": _headers((b"deep", _nested(b"A", 3000))),
    "a table nested 3,000 times": _headers((b"deep", _nested(b"F", 3000))),
    "a name that is no text": _headers((b"\xff\xfe", _TEXT)),
    "a nested name that is no text": _headers((b"table", b"F" + _table((b"\xff", b"V")))),
    "a type that is no text": TYPE_THAT_IS_NO_TEXT,
    "5,000 headers": _headers(*((b"h%d" % number, b"V") for number in range(5000))),
    "headers of ours with other types": _headers(
        (b"traceparent", b"V"),
        (b"warrener-detail", _nested(b"F", 5)),
        (b"warrener-exchange", b"t\1"),
        (b"warrener-given-up", b"l" + struct.pack(">q", 2**62)),
        (b"warrener-queue", b"x" + _long(b"\xff\0")),
        (b"warrener-reason", b"A" + _long(b"V")),
        (b"x-delivery-count", _TEXT),
    ),
}
"""Properties as the broker passes them on, by what is wrong with them."""


class RawMessage(NamedTuple):
    """A message whose properties are bytes: their flags and their list."""

    exchange: str
    routing_key: str
    properties: bytes
    body: bytes


async def publish_raw(url: str, messages: Sequence[RawMessage]) -> None:
    """Publish these; returns once the broker has them all."""
    session = Session(parse_address(url))
    await session.open()
    confirms = _Confirms(len(messages))
    channel = await session.channel(confirms)
    await channel.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
    for message in messages:
        # As Connection.publish, which writes properties of its own.
        session.core._out += (  # pyright: ignore[reportPrivateUsage]
            encode_publish(channel.number, message.exchange, message.routing_key, mandatory=False),
            *encode_content(channel.number, [message.properties], message.body, _FRAME_MAX),
        )
    session.transport.flush_soon()
    await confirms.all_here.wait()
    await session.close()
    assert confirms.lost is None, f"expected the broker to take these messages, got {confirms.lost}"


class _Confirms(ChannelListener):
    """Counts the confirms of one channel."""

    def __init__(self, count: int) -> None:
        self.all_here = asyncio.Event()
        self.lost: AmqpError | None = None
        self._count = count

    def on_confirm(self, confirm: Confirmed) -> None:
        if confirm.tag == self._count:
            self.all_here.set()

    def on_closed(self, reason: AmqpError) -> None:
        if not self.all_here.is_set():
            self.lost = reason
            self.all_here.set()
