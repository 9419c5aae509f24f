"""How services live: start, drain and stop, loops and consumers, and the main of a service."""

from warrener_runtime.lifecycle.component import Component, ManagedComponent, StoppedWhileStarting
from warrener_runtime.lifecycle.consumer import Consumer
from warrener_runtime.lifecycle.consumer_health import ConsumerHealthMonitor
from warrener_runtime.lifecycle.group import Group
from warrener_runtime.lifecycle.health_registry import ConsumerStalled, HealthRegistry, NotReady
from warrener_runtime.lifecycle.loop import Loop
from warrener_runtime.lifecycle.resource import Resource
from warrener_runtime.lifecycle.serve import main, serve
from warrener_runtime.lifecycle.service import Service

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
