"""Schedules and the tick ledger: one port, three implementations, one suite
(`tests/conformance/test_schedules.py`).

A row of the ledger is unique by schedule and nominal time. So whatever the number of schedulers, a tick is
decided once.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from warrener_store.schedules.rows import Advance, DueSchedule, ScheduleRow, TickRow

REMOVED = "the schedule was removed while the tick waited"

Decide = Callable[[Sequence[DueSchedule]], Sequence[Advance]]
"""A pure function: how each of these goes on, one answer for each, in order."""


class Schedules(Protocol):
    """Where schedules and their ticks are kept. Errors are those of the state store."""

    async def put_schedules(self, rows: Sequence[ScheduleRow]) -> set[str]:
        """Insert, or replace what was asked for; the names of those that were changed by it.

        An older word does not replace a newer one, and one that says the same changes nothing. Whether it is
        paused, how often it ran and what waits stays; where ticks wait, it is looked at from `put_at` on. Of
        two rows of one name the newer counts.
        """
        ...

    async def pause_schedules(self, names: Collection[str], *, paused: bool, why: str = "") -> None:
        """Pause or resume these; what is not known is passed over."""
        ...

    async def remove_schedules(self, names: Collection[str], now: datetime) -> None:
        """Forget these. Their ticks stay, and those that wait for the end of a job become skipped."""
        ...

    async def schedules(self, names: Collection[str] | None = None) -> dict[str, ScheduleRow]:
        """The schedules of these names, or all, by name."""
        ...

    async def advance_schedules(self, now: datetime, limit: int, decide: Decide) -> list[TickRow]:
        """Decide about the schedules with `wake_at <= now`, the longest waiting first, at most `limit`.

        Each is kept with its ticks, all in one transaction, if it has not changed since `decide` was given
        it; else it stays due. Several callers may decide about the same ones, and only one of them is kept;
        a caller that dies leaves nothing behind. Returns the ticks that are new, or that were waiting before;
        one that was decided earlier stays as it is and is not among them.
        """
        ...

    async def add_ticks(self, ticks: Sequence[TickRow]) -> None:
        """Add those that are not there yet."""
        ...

    async def claim_ticks(self, now: datetime, until: datetime, limit: int) -> list[TickRow]:
        """Ticks that are not known to be published with `wake_at <= now`, claimed by moving it to `until`."""
        ...

    async def mark_ticks(self, keys: Collection[tuple[str, datetime]], fired_at: datetime) -> None:
        """The broker has the requests of these; the first mark counts."""
        ...

    async def release_schedules(self, jobs: Collection[tuple[str, UUID]]) -> None:
        """These jobs will never be there: schedules that wait for the end of one of them no longer do."""
        ...

    async def next_schedule_wake(self) -> datetime | None:
        """The earliest `wake_at` of all schedules and ticks."""
        ...

    async def ticks_of(self, schedule: str, limit: int = 50) -> list[TickRow]:
        """The ledger of one schedule, the newest nominal time first."""
        ...

    async def backfill_ticks(self, ticks: Sequence[TickRow]) -> list[TickRow]:
        """Keep those that are new, and those in place of a tick that was decided without a job; returns them.

        A tick that has its job, or waits for its time, stays as it is. Of two of one nominal time the first
        counts.
        """
        ...

    async def ticks_between(self, schedule: str, begin: datetime, end: datetime) -> list[TickRow]:
        """The ledger of one schedule from `begin` to `end`, both included, in order."""
        ...

    async def replan_schedules(self, zone_version: str, now: datetime) -> None:
        """Wake those that were planned by another time zone database."""
        ...
