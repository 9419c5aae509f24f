"""Durations as people write them: "90s", "2m", "1h30m", ISO 8601 ("PT2M"), a number of seconds."""

import re
from datetime import timedelta
from functools import lru_cache
from typing import Annotated

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

MAX_DURATION = timedelta(days=36_500)
"""Longer ones are refused: a time that far away plus a delay is past what datetime can hold."""

_SHORT_FORM = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?", re.ASCII)
_ISO = TypeAdapter(timedelta)


def parse_duration(value: object) -> timedelta:
    """Return `value` as a timedelta from 0 to LONGEST; raises ValueError that says what was expected."""
    try:
        span = _to_timedelta(value)
    except (OverflowError, ValueError):  # infinite, not a number, or past what timedelta can hold
        span = None
    if span is None or not timedelta(0) <= span <= MAX_DURATION:
        raise ValueError(
            'expected a duration of at most 100 years such as 90, "90s", "2m", "1h30m" or "PT2M", '
            f"got {_describe(value)}"
        )
    return span


def _to_timedelta(value: object) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return timedelta(seconds=value)
    return _parse(value) if isinstance(value, str) else None


@lru_cache(maxsize=1024)  # the same few timeouts come with every job
def _parse(text: str) -> timedelta | None:
    match = _SHORT_FORM.fullmatch(text)
    if match and text:
        days, hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
    try:
        return _ISO.validate_python(text)
    except ValidationError:
        return None


def _describe(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


_DurationInput = (
    Annotated[str, Field(examples=["90s", "2m", "1h30m", "PT2M"])] | Annotated[float, Field(ge=0)]
)

Duration = Annotated[timedelta, BeforeValidator(parse_duration, json_schema_input_type=_DurationInput)]
"""Seconds, ISO 8601 or "2m" on input; ISO 8601 on output."""

PositiveDuration = Annotated[Duration, Field(gt=timedelta(0))]
"""A Duration that is not nothing: a job with no time at all could never succeed."""
