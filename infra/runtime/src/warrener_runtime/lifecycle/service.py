"""What a service is, to the one that runs it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from warrener_runtime.lifecycle.component import Component
from warrener_runtime.lifecycle.health_registry import Check


@dataclass(frozen=True)
class Service:
    """A component, and the checks that must pass for it to be ready. Consumers check themselves."""

    component: Component
    ready: Mapping[str, Check] = field(default_factory=dict[str, Check])
