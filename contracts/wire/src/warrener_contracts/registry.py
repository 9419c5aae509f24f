"""The events of the wire, collected from their declarations, and the upgrade of older versions.

Every declared version stays readable: a version that has been released is never removed.
"""

from collections.abc import Mapping
from functools import cache

from warrener_contracts.events import declared_events
from warrener_contracts.events.envelope import EventClass, type_of
from warrener_contracts.reader import NO_UPCASTERS, Registry, Upcaster, build

__all__ = [
    "BY_TYPE",
    "REGISTRY",
    "RELEASED",
    "UPCASTERS",
    "EventClass",
    "Registry",
    "Upcaster",
    "build_models",
    "type_of",
]

RELEASED: tuple[EventClass, ...] = tuple(kind for _, kind in sorted(declared_events().items()))
"""Every version of every event."""

UPCASTERS: Mapping[EventClass, Upcaster] = NO_UPCASTERS
"""Empty: every event is in its first version."""

REGISTRY = Registry(RELEASED, UPCASTERS)
BY_TYPE = REGISTRY.by_type


@cache
def build_models() -> None:
    """Build the validators of all events, which would be built at their first use. Every service calls this
    when it is imported, so that no message waits for it, and forked processes have them all."""
    build(RELEASED)
