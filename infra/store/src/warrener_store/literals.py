"""Values as SQL text, for messages of several statements: those take no parameters."""

import re
from collections.abc import Sequence
from datetime import datetime

Value = str | datetime | Sequence[str]
_PARAMETER = re.compile(r"\$(\d+)")


def inline_values(statement: str, *values: Value) -> str:
    """The statement with values in place of `$1`, `$2` …"""
    return _PARAMETER.sub(lambda found: _literal(values[int(found[1]) - 1]), statement)


def _literal(value: Value) -> str:
    """Read alike whatever is set in the session."""
    if isinstance(value, str):
        return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    if isinstance(value, datetime):
        return _literal(value.isoformat())
    return f"ARRAY[{', '.join(map(_literal, value))}]"
