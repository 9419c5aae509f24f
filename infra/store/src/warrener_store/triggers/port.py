"""Triggers and arrivals: one port, three implementations, one suite (`tests/conformance/test_triggers.py`).

Arrivals become ticks in `Schedules.advance_schedules`: in one transaction with their ticks.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from warrener_store.triggers.rows import ArrivalRow, Trigger, TriggerRow

PORTION = 500
"""Arrivals of one schedule that are decided at once, at most."""


class Triggers(Protocol):
    """What schedules wait for, and what of it has happened. Errors are those of the state store."""

    async def put_triggers(self, rows: Sequence[TriggerRow]) -> None:
        """Insert or replace these."""
        ...

    async def drop_triggers(self, schedules: Collection[str]) -> None:
        """Forget these, and the open arrivals of their schedules."""
        ...

    async def all_triggers(self) -> list[Trigger]:
        """Every trigger with its schedule, by name."""
        ...

    async def add_arrivals(self, rows: Sequence[ArrivalRow]) -> None:
        """Add those that are new, by schedule and event, and whose schedule is there; each wakes its schedule
        at the time at which it was heard."""
        ...

    async def arrivals_of(self, schedule: str) -> list[ArrivalRow]:
        """The open ones of a schedule, by the time they were told of."""
        ...

    async def forget_arrivals(self, heard_before: datetime) -> None:
        """Delete those that are no longer open and were heard before then."""
        ...
