"""The CloudEvents 1.0 envelope that every message wears."""

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

from warrener_contracts.events.fields import Timestamp, TraceParent, TraceState

D = TypeVar("D", bound="EventData")


class EventData(BaseModel, frozen=True):
    """What an event says. Frozen; unknown fields are ignored, so that a newer neighbour may add some."""


class Event(BaseModel, Generic[D], frozen=True):
    """One CloudEvent. `source` and `id` together are unique; a repeat of the event keeps both.

    Warrener's services always set `time`; a request from elsewhere may leave it out.
    """

    specversion: Literal["1.0"] = "1.0"
    id: Annotated[
        str, Field(min_length=1, max_length=200, description="The same whenever the event is told again.")
    ]
    source: Annotated[
        str, Field(min_length=1, max_length=200, description="Who says it: a URI reference of the speaker.")
    ]
    type: str
    time: Annotated[Timestamp | None, Field(description="When it happened.")] = None
    subject: Annotated[str | None, Field(description="The job or the agent it is about.")] = None
    datacontenttype: Literal["application/json"] = "application/json"
    traceparent: Annotated[
        TraceParent,
        Field(description="W3C trace context, also a header of the message; ignored if malformed."),
    ] = None
    tracestate: Annotated[
        TraceState, Field(description="W3C trace state, also a header of the message; ignored if malformed.")
    ] = None
    data: D
