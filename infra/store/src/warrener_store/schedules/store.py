"""Schedules in both databases. An operation has one statement for both, or each database's own
(`postgres.py`, `sqlite.py`).

A tick is unique by schedule and nominal time. So it is decided once, whatever the number of schedulers.
Suites: `tests/conformance/test_schedule*.py`, `test_triggers.py`, `test_ticks.py`.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from warrener_store.databases.session import Change, Rows, SqlSession
from warrener_store.encoding import escape, unescape
from warrener_store.mapping import encode_text
from warrener_store.schedules import columns
from warrener_store.schedules.rows import (
    EXAMINED_SCHEDULES,
    FIRST_TIME,
    LAST_TIME,
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
from warrener_store.schedules.rules import is_triggered

_NO_LIMIT = 2**63 - 1
REMOVED = "the schedule was removed while the tick waited"
Decide = Callable[[Sequence[DueSchedule]], Sequence[Advance]]
"""A pure function that decides about each of these; one answer for each, in order."""


class Schedules(SqlSession):
    """Schedules, their ticks, and every declaration in agents' code that was ever adopted.

    Declarations outlive their schedules, so that a removed schedule is not adopted again.
    """

    @abstractmethod
    async def put_schedules(self, rows: Sequence[ScheduleRow]) -> set[str]:
        """Insert, or replace the definition; returns the names of the schedules that changed.

        An older definition does not replace a newer one, and an equal one changes nothing. The pause, the
        number of runs and waiting ticks stay; a schedule with waiting ticks is looked at from `put_at` on. Of
        two rows of one name the newer counts. The expectations of a schedule change with its definition
        (`rules.expectation_of`); how far they were met stays.
        """

    @abstractmethod
    async def advance_schedules(self, now: datetime, limit: int, decide: Decide) -> list[TickRow]:
        """Decide about the schedules with `wake_at <= now`, the longest waiting first, at most `limit`.

        Each is saved with its ticks, all in one transaction, if it has not changed since it was passed to
        `decide`; else it stays due. Several callers may decide about the same schedules, and one decision is
        saved; a caller that dies leaves nothing behind. Returns the ticks that are new, or that were waiting
        before; a tick that was decided earlier stays as it is and is not returned.
        """

    @abstractmethod
    async def add_ticks(self, ticks: Sequence[TickRow]) -> list[TickRow]:
        """Store ticks that are new, or that replace one decided without a job; returns those.

        A tick that has its job, or waits for its time, stays as it is. Of two of one nominal time the first
        counts.
        """

    @abstractmethod
    async def claim_ticks(self, now: datetime, until: datetime, limit: int) -> list[TickRow]:
        """Claim ticks that are not known to be published with `wake_at <= now`, by moving it to `until`."""

    async def pause_schedules(
        self, names: Collection[str], now: datetime, *, paused: bool, why: str = ""
    ) -> None:
        """Pause or resume these; unknown names are ignored.

        Runs before `now` no longer count against the expectations of a resumed schedule.
        """
        named = self._names(names)
        changes: list[Change] = [("pause_schedules", (named, paused, escape(why)))]
        if not paused:
            changes.append(("restart_watches", (named, self.codec.encode_moment(now))))
        await self._change_together(*changes)

    async def remove_schedules(self, names: Collection[str], now: datetime) -> None:
        """Delete these and their open arrivals. Their ticks stay, and those that wait for the end of a job
        become skipped."""
        gone = self._names(names)
        await self._change_together(
            ("remove_schedules", (gone,)),
            ("remove_watches", (gone,)),
            ("drop_arrivals", (gone,)),
            # Last, so that it sees the ticks that were saved while the first one waited.
            ("skip_waiting", (gone, REMOVED, self.codec.encode_moment(now))),
        )

    async def schedules(
        self, names: Collection[str] | None = None, *, triggered: bool = False
    ) -> dict[str, ScheduleRow]:
        """The schedules of these names, or all, by name; with `triggered` those alone that wait for events:
        they are few, and are found without a look at the others."""
        if triggered:
            found = await self._query("waiting_schedules")
        else:
            found = await self._query("schedules", None if names is None else self._names(names))
        rows = [columns.schedule_from_row(values, self.codec) for values in found]
        if triggered:
            rows = [row for row in rows if is_triggered(row) and (names is None or row.name in names)]
        return {row.name: row for row in rows}

    async def mark_ticks(self, keys: Collection[tuple[str, datetime]], fired_at: datetime) -> None:
        """Record that the broker has the requests of these; the first mark counts."""
        moment = self.codec.encode_moment
        marks = [(schedule, moment(nominal_at), moment(fired_at)) for schedule, nominal_at in keys]
        await self._put_rows("mark_ticks", marks)

    async def reject_ticks(self, rejected: Sequence[RejectedTick]) -> None:
        """Store why the requests of ticks were rejected (of each schedule's newest thousand), and stop
        schedules from waiting for the end of these jobs, which will never exist."""
        rows = [(each.schedule, self.codec.encode_id(each.job_id)) for each in rejected]
        await self._put_rows("release_schedules", rows)
        reasons = [(*row, encode_text(each.reason)) for row, each in zip(rows, rejected, strict=True)]
        await self._put_rows("note_rejections", reasons)

    async def replan_schedules(self, zone_version: str, now: datetime) -> None:
        """Wake schedules that were planned by another time zone database."""
        await self._change("replan_schedules", zone_version, self.codec.encode_moment(now))

    async def next_schedule_wake(self) -> datetime | None:
        """The earliest `wake_at` of all schedules and ticks."""
        found: datetime | None = self.codec.decode_moment((await self._query("next_schedule_wake"))[0][0])
        return found

    async def ticks_of(
        self,
        schedule: str,
        limit: int | None = 50,
        *,
        begin: datetime = FIRST_TIME,
        end: datetime = LAST_TIME,
    ) -> list[TickRow]:
        """The ticks of one schedule from `begin` to `end`, both included, the newest nominal time first."""
        span = self.codec.encode_moment(begin), self.codec.encode_moment(end)
        return await self._rows(
            columns.TICKS, "ticks_of", schedule, _NO_LIMIT if limit is None else limit, *span
        )

    async def keep_declarations(self, rows: Sequence[DeclarationRow]) -> None:
        """Store those that are new."""
        by_key = {row.key: row for row in reversed(rows)}
        await self._put(columns.DECLARATIONS, "keep_declaration", (row for _, row in sorted(by_key.items())))

    async def declarations(
        self, names: Collection[str], job_types: Collection[str] = ()
    ) -> list[DeclarationRow]:
        """The declarations of these schedules, and those for these job types, by name and time."""
        return await self._rows(
            columns.DECLARATIONS, "declarations", self._names(names), self._names(job_types)
        )


class ScheduleLists(SqlSession):
    """Pages of schedules and of their runs, for people. Each reads a bounded number of rows by an index."""

    async def list_schedules(self, which: ScheduleFilter) -> list[ScheduleRow]:
        """These schedules, by name. For the next page pass the last name of this one as `after`."""
        found = await self._query(
            "list_schedules",
            escape(which.after),
            encode_text(which.text),
            which.owner,
            which.job_type,
            which.paused,
            self.codec.encode_moment(which.due_before),
            which.sleeping,
            which.limit,
        )
        return [columns.schedule_from_row(values, self.codec) for values in found]

    async def runs_of(
        self, schedules: Collection[str], limit: int, *, before: datetime = LAST_TIME
    ) -> dict[str, list[ScheduledRun]]:
        """The newest ticks before then of each of these schedules, at most `limit` of each, the newest
        first, with the states of their jobs."""
        runs: dict[str, list[ScheduledRun]] = {name: [] for name in schedules}
        if runs:
            parameters = self._names(runs), limit, self.codec.encode_moment(before)
            for run in await self._rows(columns.SCHEDULED_RUNS, "runs_of", *parameters):
                runs[run.schedule].append(run)
        return runs


class Watches(SqlSession):
    """How far schedules meet their expectations. Errors are those of the state store. `put_schedules` and
    `remove_schedules` insert and delete expectations."""

    @abstractmethod
    async def claim_watches(self, now: datetime, until: datetime, limit: int) -> list[WatchedSchedule]:
        """Claim those with `check_at <= now`, the longest due first, by moving it to `until`. No two callers
        get the same."""

    async def note_successes(self, rows: Sequence[WatchRow]) -> None:
        """Store `last_success_tick` and `last_success_at` of these, unless a newer tick is stored."""
        known = [row for row in rows if row.last_success_tick is not None]
        await self._put(columns.SUCCESSES, "note_successes", known)

    async def late_schedules(self, before: datetime, until: datetime, limit: int) -> list[ScheduleRow]:
        """Schedules whose next tick or `wake_at` was due at `before`, and whose `wake_at` is `until` or
        earlier; the longest due first."""
        moments = self.codec.encode_moment(before), self.codec.encode_moment(until)
        found = await self._query("late_schedules", *moments, limit)
        return [columns.schedule_from_row(values, self.codec) for values in found]

    async def last_success(self, schedule: str) -> datetime | None:
        """The newest of the last MAX_RUNS_EXAMINED nominal times whose job has succeeded."""
        found: datetime | None = self.codec.decode_moment((await self._query("last_success", schedule))[0][0])
        return found


class TickRetention(SqlSession):
    """Old ticks."""

    @abstractmethod
    async def delete_ticks(self, keys: Collection[tuple[str, datetime]]) -> int:
        """Delete those of these that are still deletable; returns how many."""

    async def old_ticks(self, after: str, before: datetime, newest: int, limit: int) -> OldTicks:
        """Examine the next schedules whose names are greater than `after`, removed ones too: their ticks with
        a nominal time before `before`, at most `limit` of each, the oldest.

        Never the `newest` of each schedule, nor ticks that wait or are not known to be published.
        """
        named = await self._query("ticked_schedules", after, EXAMINED_SCHEDULES)
        names = [str(row[0]) for row in named]
        found = await self._old_ticks_of(names, before, newest, limit) if names else ()
        ticks = [columns.TICKS.from_row(values, self.codec) for values in found]
        if len(ticks) >= limit:  # one of these schedules may have more
            return OldTicks(ticks, after)
        return OldTicks(ticks, names[-1] if len(names) == EXAMINED_SCHEDULES else None)

    @abstractmethod
    async def _old_ticks_of(
        self, schedules: Sequence[str], before: datetime, newest: int, limit: int
    ) -> Rows: ...


class Triggers(SqlSession):
    """The events that schedules wait for, and their arrivals. Errors are those of the state store.

    Arrivals become ticks in `Schedules.advance_schedules`, in one transaction with their ticks.
    """

    @abstractmethod
    async def add_arrivals(self, rows: Sequence[ArrivalRow]) -> None:
        """Add those that are new, by schedule and event, and whose schedule exists; each wakes its schedule
        at `received_at`."""

    async def add_bindings(self, addresses: Collection[Address]) -> set[Address]:
        """Record that these may be bound at the broker from now on; returns all that may be."""
        bound = {(unescape(exchange), unescape(key)) for exchange, key in await self._query("bound")}
        missing = set(addresses) - bound
        await self._put_rows("note_bound", list(map(_address_to_row, missing)))
        return bound | missing

    async def remove_bindings(self, addresses: Collection[Address]) -> None:
        """Record that these are no longer bound."""
        await self._put_rows("forget_bound", list(map(_address_to_row, addresses)))

    async def arrivals_of(self, schedule: str) -> list[ArrivalRow]:
        """The open arrivals of a schedule, by `occurred_at`."""
        return await self._rows(columns.ARRIVALS, "arrivals_of", schedule)

    async def delete_old_arrivals(self, received_before: datetime) -> None:
        """Delete arrivals that were received before then and are no longer open, or whose schedule no longer
        waits for events."""
        await self._change("forget_arrivals", self.codec.encode_moment(received_before))


def _address_to_row(address: Address) -> tuple[str, str]:
    exchange, key = address
    return escape(exchange), escape(key)
