"""What schedules wait for: one port, three implementations, one suite (`tests/conformance/test_triggers.py`).

Arrivals become ticks in `Schedules.advance_schedules`: in one transaction with their ticks.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from warrener_store.schedules.rows import ScheduleRow
from warrener_store.triggers.rows import Address, ArrivalRow

PORTION = 500
"""Arrivals of one schedule that are decided at once, at most."""


class Triggers(Protocol):
    """What schedules wait for, and what of it has happened. Errors are those of the state store."""

    async def waiting_schedules(self) -> list[ScheduleRow]:
        """Every schedule whose rule waits for something, by name. There are few of them, however many
        schedules there are."""
        ...

    async def add_bindings(self, addresses: Collection[Address]) -> None:
        """These may be bound at the broker from now on."""
        ...

    async def remove_bindings(self, addresses: Collection[Address]) -> None:
        """These are not bound any more."""
        ...

    async def bound(self) -> set[Address]:
        """What may be bound at the broker."""
        ...

    async def add_arrivals(self, rows: Sequence[ArrivalRow]) -> None:
        """Add those that are new, by schedule and event, and whose schedule is there; each wakes its schedule
        at the time at which it was heard."""
        ...

    async def arrivals_of(self, schedule: str) -> list[ArrivalRow]:
        """The open ones of a schedule, by the time they were told of."""
        ...

    async def delete_open_arrivals(self, schedules: Collection[str]) -> None:
        """Forget the open ones of these."""
        ...

    async def delete_old_arrivals(self, received_before: datetime) -> None:
        """Delete those that were heard before then and are no longer open, or whose schedule waits for
        nothing any more."""
        ...
