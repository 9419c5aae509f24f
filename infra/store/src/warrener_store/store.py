"""Everything that one database keeps: opened once, and each service uses the ports that it needs."""

from typing import Protocol

from warrener_store.port import StateStore
from warrener_store.schedules.declarations import Declarations
from warrener_store.schedules.port import Schedules


class Store(StateStore, Schedules, Declarations, Protocol):
    """The state store, the schedules and what is known of their declarations."""
