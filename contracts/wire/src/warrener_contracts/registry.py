"""The events of the wire, collected from their declarations, and the upgrade of older versions.

Every declared version stays readable: a version that has been released is never removed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import FailFast, GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, core_schema

from warrener_contracts.events import Event
from warrener_contracts.events.envelope import DECLARED, EventClass, type_of

__all__ = [
    "BY_TYPE",
    "REGISTRY",
    "RELEASED",
    "UPCASTERS",
    "EventClass",
    "Registry",
    "Upcaster",
    "golden_events",
    "type_of",
]

Upcaster = Callable[[Event[Any]], Event[Any]]
"""Converts an event of an older released version to the next version. It receives a valid event and keeps id,
source, time and trace context."""

_NO_UPCASTERS: Mapping[EventClass, Upcaster] = MappingProxyType({})


@dataclass(frozen=True)
class _OneOf:
    """Validates one of several events, chosen by its `type`, in one pass over the bytes."""

    kinds: tuple[EventClass, ...]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = {type_of(kind): handler.generate_schema(kind) for kind in self.kinds}
        return core_schema.tagged_union_schema(choices, discriminator="type")


@dataclass(frozen=True)
class Registry:
    """The events that a reader accepts."""

    kinds: tuple[EventClass, ...]
    upcasters: Mapping[EventClass, Upcaster] = field(default_factory=lambda: _NO_UPCASTERS)

    @cached_property
    def by_type(self) -> Mapping[str, EventClass]:
        """The event classes by their CloudEvents `type`."""
        return MappingProxyType({type_of(kind): kind for kind in self.kinds})

    @cached_property
    def one(self) -> TypeAdapter[Event[Any]]:
        """The validator of one event."""
        return TypeAdapter(Annotated[Any, _OneOf(self.kinds)])

    @cached_property
    def many(self) -> TypeAdapter[list[Event[Any]]]:
        """The validator of a batch; it stops at the first invalid event."""
        return TypeAdapter(Annotated[list[Annotated[Any, _OneOf(self.kinds)]], FailFast()])

    def current(self, event: Event[Any]) -> Event[Any]:
        """Convert `event` to its current version."""
        while caster := self.upcasters.get(type(event)):
            event = caster(event)
        return event


RELEASED: tuple[EventClass, ...] = tuple(DECLARED[name] for name in sorted(DECLARED))
"""Every version of every event."""

UPCASTERS: Mapping[EventClass, Upcaster] = _NO_UPCASTERS
"""Empty: every event is in its first version."""

REGISTRY = Registry(RELEASED, UPCASTERS)
BY_TYPE = REGISTRY.by_type


@cache
def golden_events() -> Mapping[str, Event[Any]]:
    """The example of each event, by its CloudEvents `type`."""
    return MappingProxyType({name: kind.example() for name, kind in BY_TYPE.items()})
