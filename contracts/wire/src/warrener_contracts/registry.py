"""Which events are read: every released version of each, and how an older version becomes the current one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import FailFast, GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, core_schema

from warrener_contracts import events
from warrener_contracts.events import Event

EventClass = type[Event[Any]]
Upcaster = Callable[[Event[Any]], Event[Any]]
"""From an event of an older released version to the next version's. It gets a valid event and keeps id,
source, time and trace context: the event stays the same event."""

_NO_UPCASTERS: Mapping[EventClass, Upcaster] = MappingProxyType({})


def type_of(kind: EventClass) -> str:
    """The CloudEvents `type` of an event class: `job.requested.v1`."""
    return str(kind.model_fields["type"].default)


@dataclass(frozen=True)
class _OneOf:
    """Reads one of several events by its `type`, in one pass over the bytes."""

    kinds: tuple[EventClass, ...]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = {type_of(kind): handler.generate_schema(kind) for kind in self.kinds}
        return core_schema.tagged_union_schema(choices, discriminator="type")


@dataclass(frozen=True)
class Registry:
    """The events that a reader knows."""

    kinds: tuple[EventClass, ...]
    upcasters: Mapping[EventClass, Upcaster] = field(default_factory=lambda: _NO_UPCASTERS)

    @cached_property
    def by_type(self) -> Mapping[str, EventClass]:
        """The event classes by their CloudEvents `type`."""
        return MappingProxyType({type_of(kind): kind for kind in self.kinds})

    @cached_property
    def one(self) -> TypeAdapter[Event[Any]]:
        """Reads one event."""
        return TypeAdapter(Annotated[Any, _OneOf(self.kinds)])

    @cached_property
    def many(self) -> TypeAdapter[list[Event[Any]]]:
        """Reads a batch of events; stops at the first that is none."""
        return TypeAdapter(Annotated[list[Annotated[Any, _OneOf(self.kinds)]], FailFast()])

    def current(self, event: Event[Any]) -> Event[Any]:
        """`event` in its current version."""
        while caster := self.upcasters.get(type(event)):
            event = caster(event)
        return event


RELEASED: tuple[EventClass, ...] = (
    events.AgentAnnounced,
    events.AgentHeartbeat,
    events.AgentHeartbeatRequested,
    events.AgentLost,
    events.AttemptCancel,
    events.AttemptCancelled,
    events.AttemptCheckpointed,
    events.AttemptDispatched,
    events.AttemptFailed,
    events.AttemptLost,
    events.AttemptStartTimedOut,
    events.AttemptProgressed,
    events.AttemptReleased,
    events.AttemptStarted,
    events.AttemptSucceeded,
    events.AttemptTimedOut,
    events.BreakerChanged,
    events.BreakerSetRequested,
    events.IncidentAcknowledgeRequested,
    events.IncidentCloseRequested,
    events.IncidentSnoozeRequested,
    events.RedriveChangeRequested,
    events.JobCancelRequested,
    events.JobDead,
    events.JobDeadlinePassed,
    events.JobDeduplicated,
    events.JobDropRequested,
    events.JobFinished,
    events.JobRedriveRequested,
    events.JobRejected,
    events.JobRequested,
    events.JobRetrying,
    events.JobWaiting,
    events.ParkedDropRequested,
    events.ParkedRequeueRequested,
    events.ServiceUnresponsive,
    events.ScheduleBackfillRequested,
    events.SchedulePauseRequested,
    events.SchedulePut,
    events.ScheduleRemoveRequested,
    events.ScheduleResumeRequested,
    events.ScheduleTicked,
    events.ScheduleTriggerRequested,
)
"""Every released version of every event: what stands here can be read for ever."""

UPCASTERS: Mapping[EventClass, Upcaster] = _NO_UPCASTERS
"""Every event is in its first version."""

REGISTRY = Registry(RELEASED, UPCASTERS)
BY_TYPE = REGISTRY.by_type
