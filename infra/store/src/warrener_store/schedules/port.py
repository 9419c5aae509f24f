"""The ports of schedules. Suites: `tests/conformance/test_schedule*.py`, `test_triggers.py`,
`test_tick_retention.py`.

A tick is unique by schedule and nominal time. So it is decided once, whatever the number of schedulers."""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Protocol

from warrener_store.schedules.rows import (
    Address,
    Advance,
    ArrivalRow,
    DeclarationRow,
    DueSchedule,
    OldTicks,
    RejectedTick,
    ScheduledRun,
    ScheduleFilter,
    ScheduleRow,
    TickRow,
    WatchedSchedule,
    WatchRow,
)

REMOVED = "the schedule was removed while the tick waited"
FIRST_TIME = datetime.min.replace(tzinfo=UTC)
LAST_TIME = datetime.max.replace(tzinfo=UTC)
Decide = Callable[[Sequence[DueSchedule]], Sequence[Advance]]
"""A pure function that decides about each of these; one answer for each, in order."""


class Schedules(Protocol):
    """Schedules and their ticks. Errors are those of the state store."""

    async def put_schedules(self, rows: Sequence[ScheduleRow]) -> set[str]:
        """Insert, or replace the definition; returns the names of the schedules that changed.

        An older definition does not replace a newer one, and an equal one changes nothing. The pause, the
        number of runs and waiting ticks stay; a schedule with waiting ticks is looked at from `put_at` on. Of
        two rows of one name the newer counts. The expectations of a schedule change with its definition
        (`rules.expectation_of`); how far they were met stays.
        """
        ...

    async def pause_schedules(
        self, names: Collection[str], now: datetime, *, paused: bool, why: str = ""
    ) -> None:
        """Pause or resume these; unknown names are ignored.

        Runs before `now` no longer count against the expectations of a resumed schedule.
        """
        ...

    async def remove_schedules(self, names: Collection[str], now: datetime) -> None:
        """Delete these and their open arrivals. Their ticks stay, and those that wait for the end of a job
        become skipped."""
        ...

    async def schedules(
        self, names: Collection[str] | None = None, *, triggered: bool = False
    ) -> dict[str, ScheduleRow]:
        """The schedules of these names, or all, by name; with `triggered` those alone that wait for events:
        they are few, and are found without a look at the others."""
        ...

    async def advance_schedules(self, now: datetime, limit: int, decide: Decide) -> list[TickRow]:
        """Decide about the schedules with `wake_at <= now`, the longest waiting first, at most `limit`.

        Each is saved with its ticks, all in one transaction, if it has not changed since it was passed to
        `decide`; else it stays due. Several callers may decide about the same schedules, and one decision is
        saved; a caller that dies leaves nothing behind. Returns the ticks that are new, or that were waiting
        before; a tick that was decided earlier stays as it is and is not returned.
        """
        ...

    async def add_ticks(self, ticks: Sequence[TickRow]) -> list[TickRow]:
        """Store ticks that are new, or that replace one decided without a job; returns those.

        A tick that has its job, or waits for its time, stays as it is. Of two of one nominal time the first
        counts.
        """
        ...

    async def claim_ticks(self, now: datetime, until: datetime, limit: int) -> list[TickRow]:
        """Claim ticks that are not known to be published with `wake_at <= now`, by moving it to `until`."""
        ...

    async def mark_ticks(self, keys: Collection[tuple[str, datetime]], fired_at: datetime) -> None:
        """Record that the broker has the requests of these; the first mark counts."""
        ...

    async def reject_ticks(self, rejected: Sequence[RejectedTick]) -> None:
        """Store why the requests of ticks were rejected (of each schedule's newest thousand), and stop
        schedules from waiting for the end of these jobs, which will never exist."""
        ...

    async def next_schedule_wake(self) -> datetime | None:
        """The earliest `wake_at` of all schedules and ticks."""
        ...

    async def ticks_of(
        self,
        schedule: str,
        limit: int | None = 50,
        *,
        begin: datetime = FIRST_TIME,
        end: datetime = LAST_TIME,
    ) -> list[TickRow]:
        """The ticks of one schedule from `begin` to `end`, both included, the newest nominal time first."""
        ...

    async def replan_schedules(self, zone_version: str, now: datetime) -> None:
        """Wake schedules that were planned by another time zone database."""
        ...


class ScheduleLists(Protocol):
    """Pages of schedules and of their runs, for people. Each reads a bounded number of rows by an index."""

    async def list_schedules(self, which: ScheduleFilter) -> list[ScheduleRow]:
        """These schedules, by name. For the next page pass the last name of this one as `after`."""
        ...

    async def runs_of(
        self, schedules: Collection[str], limit: int, *, before: datetime = LAST_TIME
    ) -> dict[str, list[ScheduledRun]]:
        """The newest ticks before then of each of these schedules, at most `limit` of each, the newest
        first, with the states of their jobs."""
        ...


class ScheduleDeclarations(Protocol):
    """Every declaration in agents' code that was ever adopted. Declarations outlive their schedules, so that
    a removed schedule is not adopted again."""

    async def keep_declarations(self, rows: Sequence[DeclarationRow]) -> None:
        """Store those that are new."""
        ...

    async def declarations(
        self, names: Collection[str], job_types: Collection[str] = ()
    ) -> list[DeclarationRow]:
        """The declarations of these schedules, and those for these job types, by name and time."""
        ...


class Watches(Protocol):
    """How far schedules meet their expectations. Errors are those of the state store. `put_schedules` and
    `remove_schedules` insert and delete expectations."""

    async def claim_watches(self, now: datetime, until: datetime, limit: int) -> list[WatchedSchedule]:
        """Claim those with `check_at <= now`, the longest due first, by moving it to `until`. No two callers
        get the same."""
        ...

    async def note_successes(self, rows: Sequence[WatchRow]) -> None:
        """Store `last_success_tick` and `last_success_at` of these, unless a newer tick is stored."""
        ...

    async def late_schedules(self, before: datetime, until: datetime, limit: int) -> list[ScheduleRow]:
        """Schedules whose next tick or `wake_at` was due at `before`, and whose `wake_at` is `until` or
        earlier; the longest due first."""
        ...

    async def last_success(self, schedule: str) -> datetime | None:
        """The newest of the last MAX_RUNS_EXAMINED nominal times whose job has succeeded."""
        ...


class TickRetention(Protocol):
    """Old ticks. Errors are those of the state store."""

    async def old_ticks(self, after: str, before: datetime, newest: int, limit: int) -> OldTicks:
        """Examine the next schedules whose names are greater than `after`, removed ones too: their ticks with
        a nominal time before `before`, at most `limit` of each, the oldest.

        Never the `newest` of each schedule, nor ticks that wait or are not known to be published.
        """
        ...

    async def delete_ticks(self, keys: Collection[tuple[str, datetime]]) -> int:
        """Delete those of these that are still deletable; returns how many."""
        ...


class Triggers(Protocol):
    """The events that schedules wait for, and their arrivals. Errors are those of the state store.

    Arrivals become ticks in `Schedules.advance_schedules`, in one transaction with their ticks.
    """

    async def add_bindings(self, addresses: Collection[Address]) -> set[Address]:
        """Record that these may be bound at the broker from now on; returns all that may be."""
        ...

    async def remove_bindings(self, addresses: Collection[Address]) -> None:
        """Record that these are no longer bound."""
        ...

    async def add_arrivals(self, rows: Sequence[ArrivalRow]) -> None:
        """Add those that are new, by schedule and event, and whose schedule exists; each wakes its schedule
        at `received_at`."""
        ...

    async def arrivals_of(self, schedule: str) -> list[ArrivalRow]:
        """The open arrivals of a schedule, by `occurred_at`."""
        ...

    async def delete_old_arrivals(self, received_before: datetime) -> None:
        """Delete arrivals that were received before then and are no longer open, or whose schedule no longer
        waits for events."""
        ...
