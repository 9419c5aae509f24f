"""Durations as people write them: "90s", "2m", "1h30m", ISO 8601 ("PT2M"), a number of seconds."""

import re
from datetime import timedelta

from pydantic import TypeAdapter, ValidationError

_SHORT = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")
_ISO = TypeAdapter(timedelta)


def duration(value: timedelta | float | str) -> timedelta:
    """Return `value` as a non-negative timedelta; raises ValueError that says what was expected."""
    span = _read(value)
    if span is None or span < timedelta(0):
        raise ValueError(f'expected a duration such as 90, "90s", "2m", "1h30m" or "PT2M", got {value!r}')
    return span


def _read(value: timedelta | float | str) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int | float):
        return timedelta(seconds=value)
    match = _SHORT.fullmatch(value)
    if match and value:
        days, hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
    try:
        return _ISO.validate_python(value)
    except ValidationError:
        return None
