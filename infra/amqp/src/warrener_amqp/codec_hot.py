"""The four methods that every message needs, by hand: deliver, publish, confirm, acknowledge.

pamqp makes an object of each frame and reads its fields one by one; here a publish is a few joins and a
delivery a few slices. All other methods are pamqp's.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache

from warrener_amqp import short_strings
from warrener_amqp.errors import FrameMalformed
from warrener_amqp.framing import OVERHEAD

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


@lru_cache(maxsize=1024)  # few addresses carry all the messages
def encode_publish(channel: int, exchange: str, routing_key: str, mandatory: bool) -> bytes:  # noqa: FBT001 - the cache is quick with arguments by place alone
    """The method frame of a publish. Raises ValueError where a name is too long."""
    names = short_strings.encode(exchange) + short_strings.encode(routing_key)
    head = _METHOD_HEAD.pack(1, channel, 7 + len(names), PUBLISH)
    return b"%b\0\0%b%b" % (head, names, _MANDATORY if mandatory else _OPTIONAL)


def content(channel: int, properties: Sequence[bytes], body: bytes, frame_max: int) -> list[bytes]:
    """The frames that follow it: content header, body in as many frames as `frame_max` asks for."""
    size = len(body)
    pieces = [
        _CONTENT_HEAD.pack(2, channel, 12 + sum(map(len, properties)), 60, 0, size),
        *properties,
    ]
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


def ack(channel: int, tag: int, *, multiple: bool) -> bytes:
    """Basic.Ack as a frame."""
    return _ACK_FRAME.pack(1, channel, 13, ACK, tag, 1 if multiple else 0, 0xCE)


def reject(channel: int, tag: int, *, requeue: bool) -> bytes:
    """Basic.Reject as a frame."""
    return _ACK_FRAME.pack(1, channel, 13, REJECT, tag, 1 if requeue else 0, 0xCE)


def read_confirm(payload: bytes) -> tuple[int, bool]:
    """Tag and `multiple` of a Basic.Ack or Basic.Nack."""
    if len(payload) != _CONFIRM.size:
        raise FrameMalformed(f"expected a confirm of {_CONFIRM.size} bytes, got {len(payload)}")
    _, tag, bits = _CONFIRM.unpack(payload)
    return tag, bool(bits & 1)


def read_deliver(payload: bytes) -> tuple[str, int, bool, str, str]:
    """Consumer tag, delivery tag, redelivered, exchange and routing key of a Basic.Deliver."""
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
    known = short_strings.decode_cached
    return (
        known(payload[5:at]),
        tag,
        bool(bits & 1),
        known(payload[exchange_at : key_at - 1]),
        known(payload[key_at:end]),
    )
