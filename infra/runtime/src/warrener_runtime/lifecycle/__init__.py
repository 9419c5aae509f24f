"""The life of a service: its components with start, drain and stop, and its consumers.

`run` has the main of a service. It is imported by its own name, because it needs the packages that read
settings, and a client does not.
"""

from warrener_runtime.health import ConsumerStalled, HealthRegistry, NotReady
from warrener_runtime.lifecycle.components import (
    Component,
    Group,
    Loop,
    ManagedComponent,
    Resource,
    StoppedWhileStarting,
)
from warrener_runtime.lifecycle.consumer import Consumer

__all__ = [
    "Component",
    "Consumer",
    "ConsumerStalled",
    "Group",
    "HealthRegistry",
    "Loop",
    "ManagedComponent",
    "NotReady",
    "Resource",
    "StoppedWhileStarting",
]
