"""Durations as people write them: "90s", "2m", "1h30m", ISO 8601 ("PT2M"), a number of seconds."""

import re
from datetime import timedelta
from functools import lru_cache
from typing import Annotated

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

LONGEST = timedelta(days=36_500)
"""Longer ones are refused: a time that far away plus a delay is past what datetime can hold."""

_SHORT = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?", re.ASCII)
_ISO = TypeAdapter(timedelta)


def duration(value: object) -> timedelta:
    """Return `value` as a timedelta from 0 to LONGEST; raises ValueError that says what was expected."""
    try:
        span = _read(value)
    except (OverflowError, ValueError):  # infinite, not a number, or past what timedelta can hold
        span = None
    if span is None or not timedelta(0) <= span <= LONGEST:
        raise ValueError(
            'expected a duration of at most 100 years such as 90, "90s", "2m", "1h30m" or "PT2M", '
            f"got {_shown(value)}"
        )
    return span


def _read(value: object) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return timedelta(seconds=value)
    return _parse(value) if isinstance(value, str) else None


@lru_cache(maxsize=1024)  # the same few timeouts come with every job
def _parse(text: str) -> timedelta | None:
    match = _SHORT.fullmatch(text)
    if match and text:
        days, hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
    try:
        return _ISO.validate_python(text)
    except ValidationError:
        return None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


_Written = Annotated[str, Field(examples=["90s", "2m", "1h30m", "PT2M"])] | Annotated[float, Field(ge=0)]

Duration = Annotated[timedelta, BeforeValidator(duration, json_schema_input_type=_Written)]
"""Seconds, ISO 8601 or "2m" on input; ISO 8601 on output."""

Span = Annotated[Duration, Field(gt=timedelta(0))]
"""A Duration that is not nothing: a job with no time at all could never succeed."""
