"""The kinds of field that events, policies and rules are made of, and the values they accept."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import core_schema

from warrener_contracts.json_safety import find_unsafe_value, sanitize_text

# Names.

JobType = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", max_length=120)]
"""Dotted words. A job type is a routing key, so `*`, `#` and blanks are refused."""

RESERVED_WORDS = frozenset({"agent", "attempt", "breaker", "job", "redrive", "schedule"})
"""First words that no job type may have: they begin the routing keys of requests that name no job type."""


def _not_reserved(name: str) -> str:
    first = name.partition(".")[0]
    if first in RESERVED_WORDS:
        raise ValueError(
            f"expected a job type that does not begin with {', '.join(sorted(RESERVED_WORDS))}, got "
            f"{name!r}: "
            "those words are routing keys of Warrener's own; choose another first word"
        )
    return name


DeclaredJobType = Annotated[JobType, AfterValidator(_not_reserved)]
"""A job type that an agent may declare. Requests need no such check: they must name a declared type."""

QueueName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=60)]
_QUEUE_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}", re.ASCII)


def is_queue_name(text: str) -> bool:
    """True for a text that a queue may be called: what comes from outside is no name before that."""
    return _QUEUE_NAME.fullmatch(text) is not None


AgentId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:@+-]+$", max_length=120)]
"""Part of a routing key and of a queue's name, so `*`, `#` and blanks are refused."""

ReplyAddress = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,80}$")]
AttemptNumber = Annotated[int, Field(ge=1, le=2**31 - 1)]

# JSON and text.

JsonObject = dict[str, Any]


def _check_safe(value: JsonObject) -> JsonObject:
    if finding := find_unsafe_value(value):
        raise ValueError(finding)
    return value


JsonSafeObject = Annotated[JsonObject, AfterValidator(_check_safe)]
"""A JSON object of an untrusted sender, without values that a database would refuse later."""


def _truncated(limit: int) -> BeforeValidator:
    return BeforeValidator(lambda text: sanitize_text(text, limit) if isinstance(text, str) else text)


Sentence = Annotated[str, _truncated(4_000)]
"""Text for people. Unsafe characters are replaced and long text is cut, so that an event that reports a
failure cannot fail itself."""

StackTrace = Annotated[str, _truncated(64_000)]
"""As Sentence, with room for a stack trace."""

LogText = Annotated[str, _truncated(100_000)]
"""As Sentence, with room for a log line of the greatest length that an agent may be set to."""

# Trace context.

_none_if_invalid = GetPydanticSchema(
    lambda kind, handler: core_schema.with_default_schema(handler(kind), default=None, on_error="default")
)
# They are also message headers. W3C requires receivers to drop a malformed one, so none refuses a request.
TraceParent = Annotated[
    str | None,
    Field(pattern=r"^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{1,100})?$"),
    _none_if_invalid,
]
TraceState = Annotated[str | None, Field(pattern=r"^[ -~]{1,1024}$"), _none_if_invalid]
Baggage = Annotated[str | None, Field(pattern=r"^[ -~]{1,8192}$"), _none_if_invalid]

# Times.


def _in_utc(moment: datetime) -> datetime:
    if not 1970 <= moment.year < 9000:  # readers add delays; past the year 9999 a datetime overflows
        raise ValueError(f"expected a time from the year 1970 to 8999, got {moment.isoformat()}")
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


Timestamp = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A moment in UTC, RFC 3339 on the wire. A time without an offset is refused."""

MAX_DURATION = timedelta(days=36_500)
"""Longer durations are refused: a time that far away plus a delay would overflow a datetime."""

_MAX_DURATION_TEXT = 100
"""Characters of a duration: the cache of those that were read must not store whatever a stranger sends."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_SHORT_FORM = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?", re.ASCII)
_ISO = TypeAdapter(timedelta, config=ConfigDict(defer_build=True))


def parse_duration(value: object) -> timedelta:
    """Parse seconds, "90s", "2m", "1h30m", ISO 8601 ("PT2M") or a timedelta.

    Returns a duration from 0 to MAX_DURATION. Raises ValueError for anything else.
    """
    try:
        span = _to_timedelta(value)
    except (OverflowError, ValueError):  # infinite, not a number, or more than a timedelta can hold
        span = None
    if span is None or not timedelta(0) <= span <= MAX_DURATION:
        raise ValueError(
            'expected a duration of at most 100 years such as 90, "90s", "2m", "1h30m" or "PT2M", '
            f"got {_shortened(value)}"
        )
    return span


def _to_timedelta(value: object) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return timedelta(seconds=value)
    return _parse(value) if isinstance(value, str) and len(value) <= _MAX_DURATION_TEXT else None


@lru_cache(maxsize=1024)  # every job carries the same few timeouts
def _parse(text: str) -> timedelta | None:
    if _NUMBER.fullmatch(text):  # of seconds: variables and options are texts
        return timedelta(seconds=float(text))
    match = _SHORT_FORM.fullmatch(text)
    if match and text:
        days, hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
    try:
        return _ISO.validate_python(text)
    except ValidationError:
        return None


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


_DurationInput = (
    Annotated[str, Field(examples=["90s", "2m", "1h30m", "PT2M"])] | Annotated[float, Field(ge=0)]
)

Duration = Annotated[timedelta, BeforeValidator(parse_duration, json_schema_input_type=_DurationInput)]
"""Input as `parse_duration` takes it; output in ISO 8601."""

PositiveDuration = Annotated[Duration, Field(gt=timedelta(0))]
"""A Duration above zero: a job with no time at all could never succeed."""

DurationLike = timedelta | float | str
"""A duration as a person writes it: 90, "90s", "2m", "PT2M", or a timedelta."""

# Omitted defaults.
# Predicates for `exclude_if`: fields added after version 1.0 are omitted while unset, so that an event that
# does not use them keeps the bytes of 1.0.


def is_unset(value: object) -> bool:
    """True for None, False and the empty tuple."""
    return value is None or value is False or value == ()


def is_none(value: object) -> bool:
    """True for None alone: for fields whose empty value has a meaning."""
    return value is None


def is_zero(value: object) -> bool:
    """True for a count of zero."""
    return value == 0


def optional_field(description: str) -> Any:
    """A field that may be None, and is omitted then."""
    return Field(default=None, exclude_if=is_none, description=description)
