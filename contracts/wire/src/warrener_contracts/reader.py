"""The events that a reader of messages accepts, and the validators that are built for them at the first one.

The registry of all events is in `registry`, which imports them all: programs that read a few name these.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import FailFast, GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, core_schema

from warrener_contracts.events import Event
from warrener_contracts.events.envelope import EventClass, type_of

Upcaster = Callable[[Event[Any]], Event[Any]]
"""Converts an event of an older released version to the next version. It receives a valid event and keeps id,
source, time and trace context."""

NO_UPCASTERS: Mapping[EventClass, Upcaster] = MappingProxyType({})


@dataclass(frozen=True)
class _OneOf:
    """Validates one of several events, chosen by its `type`, in one pass over the bytes."""

    kinds: tuple[EventClass, ...]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = {type_of(kind): handler.generate_schema(kind) for kind in self.kinds}
        return core_schema.tagged_union_schema(choices, discriminator="type")


def build(kinds: Iterable[EventClass]) -> None:
    for kind in kinds:
        kind.model_rebuild()  # does nothing if it is built


@dataclass(frozen=True)
class Registry:
    """The events that a reader accepts."""

    kinds: tuple[EventClass, ...]
    upcasters: Mapping[EventClass, Upcaster] = field(default_factory=lambda: NO_UPCASTERS)

    @cached_property
    def by_type(self) -> Mapping[str, EventClass]:
        """The event classes by their CloudEvents `type`."""
        return MappingProxyType({type_of(kind): kind for kind in self.kinds})

    @cached_property
    def one(self) -> TypeAdapter[Event[Any]]:
        build(self.kinds)  # pydantic cannot serialize an instance of a class that it has not built
        return TypeAdapter(Annotated[Any, _OneOf(self.kinds)])

    @cached_property
    def many(self) -> TypeAdapter[list[Event[Any]]]:
        """The validator of a batch; it stops at the first invalid event."""
        build(self.kinds)
        return TypeAdapter(Annotated[list[Annotated[Any, _OneOf(self.kinds)]], FailFast()])

    def current(self, event: Event[Any]) -> Event[Any]:
        """Convert `event` to its current version."""
        while caster := self.upcasters.get(type(event)):
            event = caster(event)
        return event
