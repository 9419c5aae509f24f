"""How services live: start, drain and stop, loops and consumers, and the main of a service."""

from warrener_runtime.lifecycle.component import Component, Managed, StoppedWhileStarting
from warrener_runtime.lifecycle.consumer import Consumer
from warrener_runtime.lifecycle.group import Group
from warrener_runtime.lifecycle.hearing import HearingWatch
from warrener_runtime.lifecycle.loop import Loop
from warrener_runtime.lifecycle.resource import Resource
from warrener_runtime.lifecycle.serve import main, serve
from warrener_runtime.lifecycle.service import Service
from warrener_runtime.lifecycle.vitals import Deaf, NotReady, Vitals

__all__ = [
    "Component",
    "Consumer",
    "Deaf",
    "Group",
    "HearingWatch",
    "Loop",
    "Managed",
    "NotReady",
    "Resource",
    "Service",
    "StoppedWhileStarting",
    "Vitals",
    "main",
    "serve",
]
