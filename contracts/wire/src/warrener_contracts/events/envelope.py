"""The CloudEvents 1.0 envelope that every message wears."""

from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

JsonObject = dict[str, Any]
Instant = Annotated[AwareDatetime, AfterValidator(lambda moment: moment.astimezone(UTC))]
"""A moment in UTC, RFC 3339 on the wire; a time without an offset is refused."""

JobType = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", max_length=120)]
"""Dotted words: they become routing keys, so `*`, `#` and blanks cannot stand in them."""

QueueName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=60)]
AgentId = Annotated[str, Field(min_length=1, max_length=120)]

D = TypeVar("D", bound="EventData")


class EventData(BaseModel):
    """What an event says. Frozen; unknown fields are ignored, so that a newer neighbour may add some."""

    model_config = ConfigDict(frozen=True, ser_json_timedelta="iso8601")


class Event(BaseModel, Generic[D]):
    """One CloudEvent. `source` and `id` together are unique; a repeat of the event keeps both."""

    model_config = ConfigDict(frozen=True)

    specversion: Literal["1.0"] = "1.0"
    id: Annotated[str, Field(min_length=1, max_length=200)]
    source: Annotated[str, Field(min_length=1, max_length=200)]
    type: str
    time: Instant | None = None
    subject: str | None = None
    datacontenttype: Literal["application/json"] = "application/json"
    traceparent: str | None = None  # W3C trace context, also in the headers of the message
    tracestate: str | None = None
    data: D
