"""Deliveries that lie whole in the buffer: method, content header and body, read at once and where they lie.

Nearly all do. What is odd in any way (cut off, in several pieces, malformed) is left to the way frame by
frame, which says what is wrong with it; so there is one place for each complaint.
"""

import struct
from functools import lru_cache

from warrener_amqp import codec_hot, short_strings
from warrener_amqp.errors import FrameMalformed
from warrener_amqp.events import Delivered
from warrener_amqp.framing import BODY, FRAME_END, HEADER, METHOD, OVERHEAD
from warrener_amqp.properties import read_properties

_METHOD = struct.Struct(">BHII")  # a frame's head and the number of its method
_HEADER = struct.Struct(">BBHIHHQ")  # the end of the frame before, a frame's head, class, weight, body's size
_BODY = struct.Struct(">BBHI")  # the end of the frame before, a frame's head
_HEADER_PAYLOAD = 12  # bytes of it before the properties
_BASIC = 60


def read_delivery(data: bytes, at: int, frame_max: int) -> tuple[Delivered, int] | None:
    """The delivery that begins at `at`, and where it ends; None where it must be read frame by frame."""
    max_payload = frame_max - OVERHEAD
    try:
        kind, channel, size, method = _METHOD.unpack_from(data, at)
        head_at = at + 7 + size
        end, head_kind, head_channel, head_size, class_id, _, length = _HEADER.unpack_from(data, head_at)
        if (
            method != codec_hot.DELIVER
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
        consumer = short_strings.decode_cached(data[at + 12 : tag_at])
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
    """Exchange and routing key, as they stand at the end of the method. Few addresses carry all messages."""
    key_at = raw[0] + 2
    if key_at + raw[key_at - 1] != len(raw):
        raise FrameMalformed(f"expected exchange and routing key, got {raw[:60]!r}")
    return short_strings.decode(raw[1 : key_at - 1]), short_strings.decode(raw[key_at:])


_made = Delivered._make
