"""What people want done about parked messages (exchange `warrener.status`), to the supervisor, who keeps
them."""

from typing import Annotated, Literal

from pydantic import Field

from warrener_contracts.events.envelope import Event, EventData
from warrener_contracts.events.fields import Sentence

ParkedId = Annotated[str, Field(min_length=1, max_length=1000, description="As the store has it.")]
ParkedIds = Annotated[tuple[ParkedId, ...], Field(min_length=1, max_length=200)]
Actor = Annotated[Sentence, Field(description="Who asks: a person, or what acts for one.")]


class ParkedRequeueRequestedData(EventData, frozen=True):
    """Which messages; more than 200 go in several events."""

    ids: ParkedIds
    by: Actor


class ParkedRequeueRequested(Event[ParkedRequeueRequestedData], frozen=True):
    """Send these parked messages to their queues again, and forget those that the broker has confirmed. What
    still cannot be read is parked again."""

    type: Literal["parked.requeue_requested.v1"] = "parked.requeue_requested.v1"


class ParkedDropRequestedData(EventData, frozen=True):
    """Which messages; more than 200 go in several events."""

    ids: ParkedIds
    by: Actor
    reason: Sentence = "asked for"


class ParkedDropRequested(Event[ParkedDropRequestedData], frozen=True):
    """Delete these parked messages for good."""

    type: Literal["parked.drop_requested.v1"] = "parked.drop_requested.v1"
