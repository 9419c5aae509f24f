"""The protocol between an agent and its child processes: a trace context, and JSON frames after their length.

SQL has more types than JSON; values of those types are tagged, so that a date arrives as a date.
"""

import base64
import importlib
import json
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from warrener_agent.context import AttemptFacts
from warrener_agent.ledger.port import LedgerError

HEADER: Final = struct.Struct("!I")
_TAG: Final = "$type"
TRACE_VARIABLES: Final = ("TRACEPARENT", "TRACESTATE", "BAGGAGE")
"""The variables by which a process gets its trace context and baggage, as OpenTelemetry names them."""

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
    """Encode a frame, with its length before it."""
    body = json.dumps(frame, default=_tagged).encode()
    return HEADER.pack(len(body)) + body


def unpack(body: bytes) -> Frame:
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
                "expected numbers, texts, bytes, times, decimals or UUIDs between an agent and its child "
                f"process, got {type(value).__qualname__}"
            )


def _untagged(found: dict[str, Any]) -> Any:
    reader = _READERS.get(found.get(_TAG, ""))
    return found if reader is None else reader(found["value"])


def rebuild_error(module: str, qualname: str, message: str) -> Exception:
    """Make an error of the agent again in the child, so that a handler may catch it by its class.

    LedgerError stands for a class that cannot be made from a message.
    """
    try:
        kind: object = getattr(importlib.import_module(module), qualname)
        if isinstance(kind, type) and issubclass(kind, Exception):
            return kind(message)
    except Exception:  # noqa: BLE001 - constructors of foreign exceptions may do anything
        return LedgerError(f"{qualname}: {message}")
    return LedgerError(f"{qualname}: {message}")


def trace_variables(facts: AttemptFacts) -> dict[str, str]:
    """Return the variables by which a process continues the trace of its attempt."""
    values = (facts.traceparent, facts.tracestate, facts.baggage)
    return {name: value for name, value in zip(TRACE_VARIABLES, values, strict=True) if value}
