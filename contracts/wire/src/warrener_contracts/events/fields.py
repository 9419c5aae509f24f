"""The kinds of field that events are made of, and what they accept."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, GetPydanticSchema
from pydantic_core import core_schema

from warrener_contracts import timestamps
from warrener_contracts.json_safety import find_unsafe_value, sanitize_text

JsonObject = dict[str, Any]


def _check_safe(value: JsonObject) -> JsonObject:
    if finding := find_unsafe_value(value):
        raise ValueError(finding)
    return value


JsonSafeObject = Annotated[JsonObject, AfterValidator(_check_safe)]
"""A JSON object from a stranger, with nothing in it that a database would refuse further on."""


Timestamp = timestamps.Timestamp
JobType = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", max_length=120)]
"""Dotted words: they become routing keys, so `*`, `#` and blanks cannot stand in them."""

RESERVED_WORDS = frozenset({"agent", "attempt", "breaker", "job", "schedule"})
"""First words that no job type may have: they are routing keys of requests that are not for a job type."""


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
"""A job type that an agent may declare. What nobody can declare, nobody can ask for."""

QueueName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=60)]
AgentId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:@+-]+$", max_length=120)]
"""It becomes a routing key and a queue's name: `*`, `#` and blanks cannot stand in it."""

ReplyAddress = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,80}$")]
AttemptNumber = Annotated[int, Field(ge=1, le=2**31 - 1)]


def _truncated(limit: int) -> BeforeValidator:
    return BeforeValidator(lambda text: sanitize_text(text, limit) if isinstance(text, str) else text)


Sentence = Annotated[str, _truncated(4_000)]
"""Text for people. What cannot be sent is replaced and what is too long is cut, because an event that tells
of a failure must never fail itself."""

StackTrace = Annotated[str, _truncated(64_000)]
"""As Sentence, with room for a stack trace."""

_none_if_invalid = GetPydanticSchema(
    lambda kind, handler: core_schema.with_default_schema(handler(kind), default=None, on_error="default")
)
# Both become headers of messages; a malformed one is dropped, as W3C asks, and never refuses a request.
TraceParent = Annotated[
    str | None,
    Field(pattern=r"^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{1,100})?$"),
    _none_if_invalid,
]
TraceState = Annotated[str | None, Field(pattern=r"^[ -~]{1,1024}$"), _none_if_invalid]
