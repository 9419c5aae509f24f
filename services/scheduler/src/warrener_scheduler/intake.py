"""What one batch of the requests queue holds, sorted by what is to be done with it. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.events import (
    AgentAnnounced,
    BreakerSetRequested,
    RedriveChangeRequested,
    Event,
    JobCancelRequested,
    JobDropRequested,
    JobRedriveRequested,
    JobRequested,
    Reason,
)
from warrener_contracts.messages import Message
from warrener_runtime.bus.port import Delivery
from warrener_scheduler.answers import parked_event
from warrener_scheduler.campaign_orders import Order
from warrener_scheduler.clock.keeping import ScheduleEvent, Wish


class Asked(NamedTuple):
    """A request, and what it was read from: that is what is parked should it be rejected."""

    event: JobRequested
    came: DecodedEvent


@dataclass(slots=True)
class Intake:
    """The events of a batch by kind; what cannot be read; what has lost its way."""

    requests: list[Asked] = field(default_factory=list[Asked])
    wishes: list[Wish] = field(default_factory=list[Wish])
    cancels: list[JobCancelRequested] = field(default_factory=list[JobCancelRequested])
    handed_on: list[Event[Any]] = field(default_factory=list[Event[Any]])  # to the supervisor
    announcements: list[AgentAnnounced] = field(default_factory=list[AgentAnnounced])
    orders: list[tuple[Order, DecodedEvent]] = field(default_factory=list[tuple[Order, DecodedEvent]])
    unreadable: list[DecodeFailure] = field(default_factory=list[DecodeFailure])
    strayed: list[Message] = field(default_factory=list[Message])


def take_in(read: Iterable[tuple[Delivery, Sequence[DecodedEvent | DecodeFailure]]]) -> Intake:
    """Sort the events of these messages; each is judged by itself, also within one message."""
    intake = Intake()
    for _, events in read:
        for found in events:
            if isinstance(found, DecodeFailure):
                intake.unreadable.append(found)
                continue
            match found.event:
                case JobRequested() as event:
                    intake.requests.append(Asked(event, found))
                case JobCancelRequested() as event:
                    intake.cancels.append(event)
                case BreakerSetRequested() as event:
                    intake.handed_on.append(event)
                case AgentAnnounced() as event:
                    intake.announcements.append(event)
                case JobRedriveRequested() | JobDropRequested() | RedriveChangeRequested() as event:
                    intake.orders.append((event, found))
                case event if isinstance(event, ScheduleEvent):
                    intake.wishes.append(Wish(event, found))
                case event:
                    detail = f"expected a request here, got {event.type}"
                    intake.strayed.append(parked_event(found, Reason.WRONG_QUEUE, detail))
    return intake
