"""Schedules in PostgreSQL: no lock outlives a statement. A decision is saved if its schedule has not changed
since it was read."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from warrener_store.batches import compact_columns, compact_repeats, latest_by_key
from warrener_store.databases.session import Rows
from warrener_store.mapping import POSTGRES_CODEC
from warrener_store.schedules.columns import (
    ARRIVAL_OUTCOMES,
    ARRIVALS,
    EXPECTATIONS,
    PROGRESS,
    RUNS,
    SCHEDULE_COLUMNS,
    TICKS,
    WATCHES,
    due_from_row,
    schedule_to_row,
)
from warrener_store.schedules.rows import (
    MAX_RUNS_EXAMINED,
    PORTION,
    ArrivalRow,
    DueSchedule,
    ScheduleRow,
    TickRow,
    WatchedSchedule,
)
from warrener_store.schedules.rules import expectation_of, is_triggered
from warrener_store.schedules.store import Decide, Schedules, TickRetention, Triggers, Watches

_ADVANCED = ("name", *PROGRESS.columns, "version")
# In most batches these are equal in all rows. None of them can be NULL, so the statement takes the first
# value.
_ADVANCED_ALIKE = [_ADVANCED.index(name) for name in ("zone_version", "runs", "waiting")]
_TICKS_ALIKE = [TICKS.columns.index(name) for name in ("status", "due_at", "decided_at", "reason")]
_PAUSED = len(WATCHES.columns)


class PostgresSchedules(Schedules):
    """Schedules, ticks and declarations."""

    async def put_schedules(self, rows: Sequence[ScheduleRow]) -> set[str]:
        latest = latest_by_key(rows, lambda row: row.name, lambda row: row.put_at).values()
        values = compact_columns(
            len(SCHEDULE_COLUMNS), (schedule_to_row(row, POSTGRES_CODEC) for row in latest)
        )
        watches = EXPECTATIONS.to_arrays(filter(None, map(expectation_of, latest)))
        return {row[0] for row in await self._change("put_schedules", *values, *watches)}

    async def advance_schedules(self, now: datetime, limit: int, decide: Decide) -> list[TickRow]:
        found = await self._query("due_schedules", now, limit)
        if not found:
            return []
        due = [due_from_row(values, POSTGRES_CODEC) for values in found]
        versions = {one.row.name: values[-1] for one, values in zip(due, found, strict=True)}
        advances = decide(await self._with_arrivals(due))
        ticks = [tick for advance in advances for tick in advance.ticks]
        rows = sorted((advance.row for advance in advances), key=attrgetter("name"))
        values = [(row.name, *PROGRESS.to_row(row, POSTGRES_CODEC), versions[row.name]) for row in rows]
        progress = _compact(_ADVANCED_ALIKE, compact_columns(len(_ADVANCED), values))
        outcomes = (one for advance in advances for one in advance.settled)
        settled = ARRIVAL_OUTCOMES.to_arrays(outcomes)
        saved = await self._change("advance_schedules", *progress, *_ticks(ticks), *settled)
        stored_keys = {(row[0], row[1]) for row in saved}
        return [tick for tick in ticks if tick.key in stored_keys]

    async def _with_arrivals(self, due: Sequence[DueSchedule]) -> list[DueSchedule]:
        """Add the open arrivals to schedules that wait for events."""
        names = [one.row.name for one in due if is_triggered(one.row)]
        if not names:
            return list(due)
        found: dict[str, list[ArrivalRow]] = {}
        for values in await self._query("open_arrivals", names, PORTION):
            row = ARRIVALS.from_row(values, POSTGRES_CODEC)
            found.setdefault(row.schedule, []).append(row)
        return [replace(one, arrivals=tuple(found.get(one.row.name, ()))) for one in due]

    async def add_ticks(self, ticks: Sequence[TickRow]) -> list[TickRow]:
        if not ticks:
            return []
        stored_keys = {(row[0], row[1]) for row in await self._change("add_ticks", *_ticks(ticks))}
        return [tick for key, tick in _firsts(ticks).items() if key in stored_keys]

    async def claim_ticks(self, now: datetime, until: datetime, limit: int) -> list[TickRow]:
        found = await self._change("claim_ticks", now, until, limit)
        return [TICKS.from_row(values, POSTGRES_CODEC) for values in found]


class PostgresWatches(Watches, TickRetention):
    """Expectations of schedules, and old ticks."""

    async def claim_watches(self, now: datetime, until: datetime, limit: int) -> list[WatchedSchedule]:
        found = await self._change("claim_watches", now, until, limit, MAX_RUNS_EXAMINED)
        return [_watched(list(lines)) for _, lines in groupby(found, key=itemgetter(0))]

    async def _old_ticks_of(
        self, schedules: Sequence[str], before: datetime, newest: int, limit: int
    ) -> Rows:
        return await self._query("old_ticks", list(schedules), before, newest, limit)

    async def delete_ticks(self, keys: Collection[tuple[str, datetime]]) -> int:
        schedules, moments = ([key[0] for key in keys], [key[1] for key in keys])
        return len(await self._change("delete_ticks", schedules, moments)) if keys else 0


class PostgresTriggers(Triggers):
    """The events that schedules wait for."""

    async def add_arrivals(self, rows: Sequence[ArrivalRow]) -> None:
        if rows:
            await self._change("add_arrivals", *ARRIVALS.to_arrays(rows))


def _ticks(ticks: Sequence[TickRow]) -> list[list[Any]]:
    return _compact(_TICKS_ALIKE, TICKS.to_arrays(_firsts(ticks).values()))


def _firsts(ticks: Sequence[TickRow]) -> dict[tuple[str, datetime], TickRow]:
    """The first tick of each key."""
    return {tick.key: tick for tick in reversed(ticks)}


def _compact(places: Iterable[int], columns: list[list[Any]]) -> list[list[Any]]:
    for place in places:
        columns[place] = compact_repeats(columns[place]) if columns[place] else []
    return columns


def _watched(lines: Rows) -> WatchedSchedule:
    """The watched schedule of a watch with one line for each of its ticks; one line if there is none."""
    runs = (line[_PAUSED + 1 :] for line in lines)
    return WatchedSchedule(
        WATCHES.from_row(lines[0], POSTGRES_CODEC),
        bool(lines[0][_PAUSED]),
        tuple(RUNS.from_row(run, POSTGRES_CODEC) for run in runs if run[0] is not None),
    )
