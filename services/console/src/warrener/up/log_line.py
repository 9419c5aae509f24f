"""What a member writes, taken apart. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

_LEFT_OUT = frozenset(
    {
        "message",
        "level",
        "timestamp",
        "service",
        "logger",
        "action",
        "part",
        "trace_id",
        "span_id",
        "exception",
        "stack",
    }
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """A record of a service's log, or a line that a handler printed."""

    message: str
    level: str = "print"
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    more: tuple[str, ...] = ()


def read_line(text: str) -> LogLine:
    """A JSON record as the runtime writes it; anything else is taken as it stands."""
    if text.startswith("{"):
        try:
            record: object = json.loads(text)
        except ValueError:
            return LogLine(text)
        if isinstance(record, dict) and "message" in record:
            return _of_record(cast("dict[str, Any]", record))
    return LogLine(text)


def _of_record(record: Mapping[str, Any]) -> LogLine:
    facts = {key: value for key, value in record.items() if key not in _LEFT_OUT and value is not None}
    stack = str(record.get("exception") or record.get("stack") or "")
    return LogLine(str(record["message"]), str(record.get("level", "info")), facts, tuple(stack.splitlines()))
