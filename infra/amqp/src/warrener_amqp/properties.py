"""The basic properties of a message: those that Warrener uses are coded by hand, as every message has them.

Flags and order are those of AMQP 0-9-1 (class 60). Headers that are strings are read by hand, all others
(numbers, booleans, times, tables, arrays) by pamqp; headers that we write are strings. A value that cannot be
read does not hide the others: the broker's own headers, such as its count of deliveries, are among them. Its
name stays, with None: a client could hide the deaths of a message else. So does `x-death` if it occurs twice,
as one of them is a client's.
"""

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from pamqp import decode as pamqp_decode

from warrener_amqp import codec

_CONTENT_TYPE, _ENCODING, _HEADERS, _MODE, _PRIORITY = 1 << 15, 1 << 14, 1 << 13, 1 << 12, 1 << 11
_CORRELATION, _REPLY_TO, _EXPIRATION, _MESSAGE_ID, _TIMESTAMP = 1 << 10, 1 << 9, 1 << 8, 1 << 7, 1 << 6
_TYPE, _USER, _APP, _CLUSTER = 1 << 5, 1 << 4, 1 << 3, 1 << 2

_OWN_FLAGS = _CONTENT_TYPE | _MODE | _MESSAGE_ID | _TYPE  # every message of Warrener's has these
_OPTIONAL_FLAGS = _HEADERS | _USER
_WITHOUT_HEADERS, _WITH_HEADERS = _OWN_FLAGS.to_bytes(2, "big"), (_OWN_FLAGS | _HEADERS).to_bytes(2, "big")
_WITH_HEADERS_AND_USER = (_OWN_FLAGS | _OPTIONAL_FLAGS).to_bytes(2, "big")
_PERSISTENT, _TRANSIENT = b"\x02", b"\x01"

_LENGTH = struct.Struct(">I")
_LONG_STRING = ord("S")
_VALUE_SIZES = {
    ord(kind): size
    for kinds, size in (("V", 0), ("tbB", 1), ("su", 2), ("Iif", 4), ("D", 5), ("lLdT", 8))
    for kind in kinds
}
"""Bytes of a header's value by its type; strings, tables and arrays begin with their length."""
_LAST_SECOND = 253_402_300_799  # of the year 9999; a larger time counts as milliseconds, as in pamqp
_NO_HEADERS: Mapping[str, object] = {}
_DEATHS = "x-death"  # where brokers write which queues a message has died in
# A table may be nested deeper than Python's stack, and a time may be after the year 9999.
_MALFORMED = (ValueError, LookupError, ArithmeticError, TypeError, OSError, struct.error, RecursionError)


class Properties(NamedTuple):
    """The properties of a message that Warrener reads. `readable`: False if a property has no value."""

    content_type: str | None = None
    headers: Mapping[str, object] = _NO_HEADERS
    persistent: bool = False
    message_id: str | None = None
    type: str | None = None
    readable: bool = True
    user_id: str | None = None  # the broker has compared it with the user of the publisher's connection


UNREADABLE = Properties(readable=False)
"""Malformed properties. The broker passes them on unread, so they are no fault of the connection: closing it
would let one bad message, which is redelivered each time, stop a consumer for good."""


def write_properties(
    content_type: str,
    headers: Mapping[str, str],
    message_id: str,
    kind: str,
    *,
    persistent: bool,
    user_id: str | None = None,
) -> Sequence[bytes]:
    """Encode flags and property list of a publish, in pieces. Raises ValueError if a string is too long."""
    if not headers:
        return (
            _before_id(content_type, persistent, user_id is not None),
            codec.encode_short(message_id),
            _kind_and_user(kind, user_id),
        )
    known = codec.encode_short_cached
    parts: list[bytes] = []
    for name, value in headers.items():
        raw = value.encode("utf-8", "surrogateescape")
        parts += (known(name), b"S", _LENGTH.pack(len(raw)), raw)
    table = b"".join(parts)
    mode = _PERSISTENT if persistent else _TRANSIENT
    return (
        _WITH_HEADERS if user_id is None else _WITH_HEADERS_AND_USER,
        known(content_type),
        _LENGTH.pack(len(table)),
        table,
        mode,
        codec.encode_short(message_id),
        _kind_and_user(kind, user_id),
    )


@lru_cache(maxsize=256)
def _kind_and_user(kind: str, user_id: str | None) -> bytes:
    encode = codec.encode_short
    return encode(kind) if user_id is None else encode(kind) + encode(user_id)


@lru_cache(maxsize=64)
def _before_id(content_type: str, persistent: bool, has_user: bool) -> bytes:  # noqa: FBT001 - as for encode_publish
    return b"%b%b%b" % (
        (_OWN_FLAGS | _USER).to_bytes(2, "big") if has_user else _WITHOUT_HEADERS,
        codec.encode_short(content_type),
        _PERSISTENT if persistent else _TRANSIENT,
    )


def read_properties(data: bytes, at: int) -> Properties:
    """Read the properties whose flags begin at `at`; UNREADABLE if they are malformed."""
    try:
        return _read(data, at)
    except _MALFORMED:
        return UNREADABLE


def _read(data: bytes, at: int) -> Properties:  # noqa: PLR0912 - a branch for each property, as on the wire
    flags = data[at] << 8 | data[at + 1]
    at += 2
    if flags | _OPTIONAL_FLAGS == _OWN_FLAGS | _OPTIONAL_FLAGS:
        return _read_own(data, at, flags)
    content_type = message_id = kind = user_id = None
    headers = _NO_HEADERS
    persistent, readable = False, True
    if flags & _CONTENT_TYPE:
        content_type, at = _text(data, at)
    if flags & _ENCODING:
        at = _skip_text(data, at)
    if flags & _HEADERS:
        headers, at, readable = _table(data, at)
    if flags & _MODE:
        persistent, at = data[at] == 2, at + 1
    if flags & _PRIORITY:
        at += 1
    for flag in (_CORRELATION, _REPLY_TO, _EXPIRATION):
        if flags & flag:
            at = _skip_text(data, at)
    if flags & _MESSAGE_ID:
        message_id, at = _text(data, at)
    if flags & _TIMESTAMP:
        readable = readable and int.from_bytes(data[at : at + 8], "big") <= _LAST_SECOND * 1000
        at += 8
    if flags & _TYPE:
        kind, at = _text(data, at)
    if flags & _USER:
        user_id, at = _text(data, at)
    for flag in (_APP, _CLUSTER):
        if flags & flag:
            at = _skip_text(data, at)
    if at > len(data):
        raise ValueError("cut off")
    return Properties(content_type, headers, persistent, message_id, kind, readable, user_id)


def _read_own(data: bytes, at: int, flags: int) -> Properties:
    """Do the same as `_read` for the properties that our own messages have, without testing each flag."""
    known, headers, readable = codec.decode_short_cached, _NO_HEADERS, True
    end = at + 1 + data[at]
    content_type, at = known(data[at + 1 : end]), end
    if flags & _HEADERS:
        headers, at, readable = _table(data, at)
    persistent, at = data[at] == 2, at + 1
    end = at + 1 + data[at]
    message_id, at = codec.decode_short(data[at + 1 : end]), end
    end = at + 1 + data[at]
    kind, user_id = known(data[at + 1 : end]), None
    if flags & _USER:
        at, end = end, end + 1 + data[end]
        user_id = known(data[at + 1 : end])
    if end > len(data):
        raise ValueError("cut off")
    return Properties(content_type, headers, persistent, message_id, kind, readable, user_id)


def _table(data: bytes, at: int) -> tuple[Mapping[str, object], int, bool]:
    """Read a table: its values, its end, and True if each of them could be read."""
    end = at + 4 + _LENGTH.unpack_from(data, at)[0]
    if end > len(data):
        raise ValueError("cut off")
    at += 4
    table: dict[str, object] = {}
    readable = True
    while at < end:
        name, at = _text(data, at)
        is_doubtful = name == _DEATHS and name in table
        if data[at] == _LONG_STRING:
            start = at + 5
            at = start + _LENGTH.unpack_from(data, at + 1)[0]
            table[name] = _long_text(data[start:at])
        else:
            start, at = at, _value_end(data, at)
            try:
                _, table[name] = pamqp_decode.embedded_value(data[start:at])
            except _MALFORMED:
                table[name], readable = None, False
        if is_doubtful:
            table[name], readable = None, False
    if at != end:
        raise ValueError("cut off")
    return table, end, readable


def _value_end(data: bytes, at: int) -> int:
    size = _VALUE_SIZES.get(data[at])
    return at + 5 + _LENGTH.unpack_from(data, at + 1)[0] if size is None else at + 1 + size


def _long_text(raw: bytes) -> str | bytes:
    """Decode text; return the bytes if they are none, as pamqp does."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + data[at]
    if end > len(data):
        raise ValueError("cut off")
    return data[at + 1 : end].decode("utf-8", "surrogateescape"), end


def _skip_text(data: bytes, at: int) -> int:
    return at + 1 + data[at]
