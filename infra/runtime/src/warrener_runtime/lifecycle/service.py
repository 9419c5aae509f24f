"""What a service is, to the one that runs it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from warrener_runtime.lifecycle.component import Component


@dataclass(frozen=True)
class Service:
    """A component, and the checks that must pass for it to be ready. Consumers check themselves."""

    component: Component
    ready: Mapping[str, Callable[[], Awaitable[None]]] = field(
        default_factory=dict[str, Callable[[], Awaitable[None]]]
    )
