"""The life of a service: its main, its components with start, drain and stop, and its consumers."""

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
from warrener_runtime.lifecycle.consumer_health import ConsumerHealthMonitor
from warrener_runtime.lifecycle.run import Service, main, serve

__all__ = [
    "Component",
    "Consumer",
    "ConsumerHealthMonitor",
    "ConsumerStalled",
    "Group",
    "HealthRegistry",
    "Loop",
    "ManagedComponent",
    "NotReady",
    "Resource",
    "Service",
    "StoppedWhileStarting",
    "main",
    "serve",
]
