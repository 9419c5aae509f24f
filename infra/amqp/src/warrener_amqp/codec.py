"""AMQP's methods as bytes: those that every message needs by hand, all others by pamqp.

pamqp makes an object of each frame and reads its fields one by one; here a publish is a few joins and a
delivery a few slices.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache

from pamqp import exceptions
from pamqp import frame as pamqp_frame
from pamqp.base import Frame as Method

from warrener_amqp.errors import FrameMalformed
from warrener_amqp.framing import METHOD, OVERHEAD, frame

PUBLISH, RETURN, DELIVER, ACK, NACK, REJECT = (60 << 16 | number for number in (40, 50, 60, 80, 120, 90))

DELIVER_BYTES = DELIVER.to_bytes(4, "big")

_CONFIRM = struct.Struct(">IQB")
_METHOD_HEAD = struct.Struct(">BHII")
_CONTENT_HEAD = struct.Struct(">BHIHHQ")
_BODY_HEAD = struct.Struct(">BHI")
_END_AND_BODY_HEAD = struct.Struct(">BBHI")
_TAG_BITS = struct.Struct(">QB")
_ACK_FRAME = struct.Struct(">BHIIQBB")

# Reserved (2 bytes) after class and method; at the end the bits, and the end of the frame.
_MANDATORY, _OPTIONAL = b"\x01\xce", b"\x00\xce"

_MAX_LENGTH = 255  # bytes of a short string

_UNREADABLE = (
    exceptions.UnmarshalingException,
    ArithmeticError,
    AttributeError,
    DeprecationWarning,  # of methods that brokers do not send, where warnings are errors
    LookupError,
    OSError,
    RecursionError,  # a table may be nested deeper than Python's stack
    TypeError,
    ValueError,
    struct.error,
)


@lru_cache(maxsize=1024)  # few addresses carry most messages
def encode_publish(channel: int, exchange: str, routing_key: str, mandatory: bool) -> bytes:  # noqa: FBT001 - the cache is quick with arguments by place alone
    """Encode the method frame of a publish. Raises ValueError if a name is too long."""
    names = encode_short(exchange) + encode_short(routing_key)
    head = _METHOD_HEAD.pack(1, channel, 7 + len(names), PUBLISH)
    return b"%b\0\0%b%b" % (head, names, _MANDATORY if mandatory else _OPTIONAL)


def encode_content(channel: int, properties: Sequence[bytes], body: bytes, frame_max: int) -> list[bytes]:
    """Encode the frames after a publish: the content header, and the body in frames of at most
    `frame_max`."""
    size = len(body)
    pieces = [_CONTENT_HEAD.pack(2, channel, 12 + sum(map(len, properties)), 60, 0, size), *properties]
    if not size:
        pieces.append(b"\xce")
    elif size <= frame_max - OVERHEAD:
        pieces += (_END_AND_BODY_HEAD.pack(0xCE, 3, channel, size), body, b"\xce")
    else:
        pieces.append(b"\xce")
        max_payload = frame_max - OVERHEAD
        for at in range(0, size, max_payload):
            part = body[at : at + max_payload]
            pieces += (_BODY_HEAD.pack(3, channel, len(part)), part, b"\xce")
    return pieces


def encode_ack(channel: int, tag: int, *, multiple: bool) -> bytes:
    return _ACK_FRAME.pack(1, channel, 13, ACK, tag, 1 if multiple else 0, 0xCE)


def encode_reject(channel: int, tag: int, *, requeue: bool) -> bytes:
    return _ACK_FRAME.pack(1, channel, 13, REJECT, tag, 1 if requeue else 0, 0xCE)


def read_confirm(payload: bytes) -> tuple[int, bool]:
    """Decode tag and `multiple` of a Basic.Ack or Basic.Nack."""
    if len(payload) != _CONFIRM.size:
        raise FrameMalformed(f"expected a confirm of {_CONFIRM.size} bytes, got {len(payload)}")
    _, tag, bits = _CONFIRM.unpack(payload)
    return tag, bool(bits & 1)


def read_deliver(payload: bytes) -> tuple[str, int, bool, str, str]:
    """Decode consumer tag, delivery tag, redelivered, exchange and routing key of a Basic.Deliver."""
    try:
        at = 5 + payload[4]
        tag, bits = _TAG_BITS.unpack_from(payload, at)
        exchange_at = at + 10
        key_at = exchange_at + payload[exchange_at - 1] + 1
        end = key_at + payload[key_at - 1]
    except (IndexError, struct.error) as error:
        raise FrameMalformed(f"expected a delivery, got {payload[:60]!r}: {error}") from error
    if end != len(payload):
        raise FrameMalformed(f"expected a delivery of {end} bytes, got {len(payload)}")
    known = decode_short_cached
    return (
        known(payload[5:at]),
        tag,
        bool(bits & 1),
        known(payload[exchange_at : key_at - 1]),
        known(payload[key_at:end]),
    )


def read_method(payload: bytes) -> Method:
    """Decode the method of a method frame by pamqp. Raises FrameMalformed."""
    try:
        _, _, method = pamqp_frame.unmarshal(frame(METHOD, 0, payload))
    except _UNREADABLE as error:
        raise FrameMalformed(f"expected a method of AMQP 0-9-1, got {payload[:40]!r}") from error
    if not isinstance(method, Method):
        raise FrameMalformed(f"expected a method of AMQP 0-9-1, got {payload[:40]!r}")
    return method


# Short strings: names, keys and types, of at most 255 bytes. Bytes of other tools that are not UTF-8 are held
# as surrogates and written back unchanged.


def encode_short(text: str) -> bytes:
    """Encode length and bytes. Raises ValueError if the text is longer than 255 bytes."""
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) > _MAX_LENGTH:
        raise ValueError(
            f"expected at most {_MAX_LENGTH} bytes in a short string, got {len(raw)}: {text[:40]!r}…"
        )
    return b"%c%b" % (len(raw), raw)


encode_short_cached = lru_cache(maxsize=4096)(encode_short)
"""For strings that many messages share: exchanges, content types, types, names of headers."""


def decode_short(raw: bytes) -> str:
    """Decode the bytes after the length."""
    return raw.decode("utf-8", "surrogateescape")


decode_short_cached = lru_cache(maxsize=4096)(decode_short)
"""For strings that many messages share: all of them get the same object."""
