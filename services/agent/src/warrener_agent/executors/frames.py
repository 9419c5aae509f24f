"""What an agent and its child processes say to each other: JSON, each piece after its length.

SQL knows more types than JSON does; those are tagged, so that a date leaves and arrives as a date.
"""

import base64
import json
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

HEADER: Final = struct.Struct("!I")
_TAG: Final = "$type"

Frame = dict[str, Any]

_READERS: Mapping[str, Callable[[str], Any]] = {
    "bytes": base64.b64decode,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "decimal": Decimal,
    "uuid": UUID,
}


def pack(frame: Frame) -> bytes:
    """The frame with its length before it."""
    body = json.dumps(frame, default=_tagged).encode()
    return HEADER.pack(len(body)) + body


def unpack(body: bytes) -> Frame:
    """The frame again."""
    frame: Frame = json.loads(body, object_hook=_untagged)
    return frame


def _tagged(value: Any) -> Any:
    match value:
        case bytes() | bytearray():
            return {_TAG: "bytes", "value": base64.b64encode(value).decode()}
        case datetime() | date() | time():
            return {_TAG: type(value).__name__, "value": value.isoformat()}
        case Decimal() | UUID():
            return {_TAG: type(value).__name__.lower(), "value": str(value)}
        case Enum():
            return value.value
        case PurePath():
            return str(value)
        case _:
            raise TypeError(
                "expected numbers, texts, bytes, times, decimals or UUIDs between an agent and its "
                "child process, "
                f"got {type(value).__qualname__}"
            )


def _untagged(found: dict[str, Any]) -> Any:
    reader = _READERS.get(found.get(_TAG, ""))
    return found if reader is None else reader(found["value"])
