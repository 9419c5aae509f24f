"""What one batch of the requests queue holds, sorted by what is to be done with it. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.events import (
    AgentAnnounced,
    BreakerSetRequested,
    Event,
    JobCancelRequested,
    JobDropRequested,
    JobRedriveRequested,
    JobRequested,
    Reason,
    RedriveChangeRequested,
)
from warrener_contracts.messages import Message
from warrener_runtime.bus.types import Delivery
from warrener_scheduler.redrive_commands import RedriveCommand
from warrener_scheduler.replies import parked_event
from warrener_scheduler.schedules.commands import ScheduleCommand, ScheduleEvent


class JobRequest(NamedTuple):
    """A request, and what it was read from: that is what is parked should it be rejected."""

    event: JobRequested
    received: DecodedEvent


@dataclass(slots=True)
class RequestBatch:
    """The events of a batch by kind; what cannot be read; what has lost its way."""

    requests: list[JobRequest] = field(default_factory=list[JobRequest])
    schedule_commands: list[ScheduleCommand] = field(default_factory=list[ScheduleCommand])
    cancels: list[JobCancelRequested] = field(default_factory=list[JobCancelRequested])
    forwarded: list[Event[Any]] = field(default_factory=list[Event[Any]])  # to the supervisor
    announcements: list[AgentAnnounced] = field(default_factory=list[AgentAnnounced])
    redrive_commands: list[tuple[RedriveCommand, DecodedEvent]] = field(
        default_factory=list[tuple[RedriveCommand, DecodedEvent]]
    )
    unreadable: list[DecodeFailure] = field(default_factory=list[DecodeFailure])
    misrouted: list[Message] = field(default_factory=list[Message])


def parse_batch(read: Iterable[tuple[Delivery, Sequence[DecodedEvent | DecodeFailure]]]) -> RequestBatch:
    """Sort the events of these messages; each is judged by itself, also within one message."""
    batch = RequestBatch()
    for _, events in read:
        for found in events:
            if isinstance(found, DecodeFailure):
                batch.unreadable.append(found)
                continue
            match found.event:
                case JobRequested() as event:
                    batch.requests.append(JobRequest(event, found))
                case JobCancelRequested() as event:
                    batch.cancels.append(event)
                case BreakerSetRequested() as event:
                    batch.forwarded.append(event)
                case AgentAnnounced() as event:
                    batch.announcements.append(event)
                case JobRedriveRequested() | JobDropRequested() | RedriveChangeRequested() as event:
                    batch.redrive_commands.append((event, found))
                case event if isinstance(event, ScheduleEvent):
                    batch.schedule_commands.append(ScheduleCommand(event, found))
                case event:
                    detail = f"expected a request here, got {event.type}"
                    batch.misrouted.append(parked_event(found, Reason.WRONG_QUEUE, detail))
    return batch
