"""Everything that one database keeps: opened once, and each service uses the ports that it needs."""

from typing import Protocol

from warrener_store.installation import Installations
from warrener_store.port import StateStore
from warrener_store.retention.port import Retention
from warrener_store.schedules.declarations import ScheduleDeclarations
from warrener_store.schedules.port import Schedules
from warrener_store.schedules.tick_retention import TickRetention
from warrener_store.schedules.watches import Watches
from warrener_store.triggers.port import Triggers


class Store(StateStore, Schedules, ScheduleDeclarations, Watches, TickRetention, Installations, Protocol):
    """The state store, and the schedules with what is expected of them and who has declared them."""

    @property
    def retention(self) -> Retention:
        """What is old, and may go."""
        ...

    @property
    def triggers(self) -> Triggers:
        """What schedules wait for."""
        ...
