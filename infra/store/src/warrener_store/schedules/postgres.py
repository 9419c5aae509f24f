"""Schedules in PostgreSQL: no lock outlives a statement. A decision counts if its schedule has not changed
since it was read."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any
from uuid import UUID

from warrener_store.arrays import once, short_arrays
from warrener_store.encoding import escape
from warrener_store.literals import with_values
from warrener_store.newest import newest
from warrener_store.records.form import NATIVE
from warrener_store.schedules.port import REMOVED, Decide, Schedules
from warrener_store.schedules.questions import ScheduleQuestions
from warrener_store.schedules.records import (
    SCHEDULE_COLUMNS,
    TICK_COLUMNS,
    due_in,
    progress_out,
    schedule_in,
    schedule_out,
    tick_in,
    tick_out,
)
from warrener_store.schedules.rows import ScheduleRow, TickRow
from warrener_store.sql import statement
from warrener_store.triggers.postgres import settled, with_arrivals

_PROGRESS = slice(SCHEDULE_COLUMNS.index("paused") + 1, SCHEDULE_COLUMNS.index("paused_why"))
_ADVANCED = ("name", "zone_version", *SCHEDULE_COLUMNS[_PROGRESS], "version")
# In most batches these say the same of all rows. None of them can be NULL, so the statement takes the first.
_ADVANCED_ALIKE = [_ADVANCED.index(name) for name in ("zone_version", "runs", "waiting")]
_TICKS_ALIKE = [TICK_COLUMNS.index(name) for name in ("fate", "due_at", "decided_at", "reason")]


class PostgresSchedules(ScheduleQuestions, Schedules):
    """A part of PostgresStore: its connections are used."""

    form = NATIVE
    _change: Any  # two methods of PostgresStore, which tenacity has given a type of its own
    _change_all: Any

    async def put_schedules(self, rows: Sequence[ScheduleRow]) -> set[str]:
        told = newest(rows, lambda row: row.name, lambda row: row.put_at).values()
        values = short_arrays(len(SCHEDULE_COLUMNS), (schedule_out(row, NATIVE) for row in told))
        return {row[0] for row in await self._change("put_schedules", *values)}

    async def pause_schedules(self, names: Collection[str], *, paused: bool, why: str = "") -> None:
        await self._change("pause_schedules", list(names), paused, escape(why))

    async def remove_schedules(self, names: Collection[str], now: datetime) -> None:
        gone = list(names)
        # Committed together. The second one sees the ticks that were kept while the first one waited.
        await self._change_all(
            with_values(_statement("remove_schedules"), gone),
            with_values(_statement("skip_waiting"), gone, REMOVED, now),
        )

    async def schedules(self, names: Collection[str] | None = None) -> dict[str, ScheduleRow]:
        asked = None if names is None else list(names)
        found = (schedule_in(values, NATIVE) for values in await self._ask("schedules", asked))
        return {row.name: row for row in found}

    async def advance_schedules(self, now: datetime, limit: int, decide: Decide) -> list[TickRow]:
        found = await self._ask("due_schedules", now, limit)
        if not found:
            return []
        due = [due_in(values[:-1], NATIVE) for values in found]
        versions = {one.row.name: values[-1] for one, values in zip(due, found, strict=True)}
        advances = decide(await with_arrivals(self._ask, due))
        ticks = [tick for advance in advances for tick in advance.ticks]
        progress = _advanced((advance.row for advance in advances), versions)
        saved = await self._change("advance_schedules", *progress, *_ticks(ticks), *settled(advances))
        kept = {(row[0], row[1]) for row in saved}
        return [tick for tick in ticks if tick.key in kept]

    async def add_ticks(self, ticks: Sequence[TickRow]) -> None:
        if ticks:
            await self._change("put_ticks", *_ticks(ticks))

    async def claim_ticks(self, now: datetime, until: datetime, limit: int) -> list[TickRow]:
        return [tick_in(values, NATIVE) for values in await self._change("claim_ticks", now, until, limit)]

    async def mark_ticks(self, keys: Collection[tuple[str, datetime]], fired_at: datetime) -> None:
        if keys:
            schedules, nominal_times = zip(*keys, strict=True)
            await self._change("mark_ticks", list(schedules), list(nominal_times), fired_at)

    async def release_schedules(self, jobs: Collection[tuple[str, UUID]]) -> None:
        if jobs:
            names, job_ids = zip(*jobs, strict=True)
            await self._change("release_schedules", list(names), list(job_ids))

    async def backfill_ticks(self, ticks: Sequence[TickRow]) -> list[TickRow]:
        if not ticks:
            return []
        kept = {(row[0], row[1]) for row in await self._change("backfill_ticks", *_ticks(ticks))}
        return [tick for key, tick in _firsts(ticks).items() if key in kept]

    async def replan_schedules(self, zone_version: str, now: datetime) -> None:
        await self._change("replan_schedules", zone_version, now)


def _advanced(rows: Iterable[ScheduleRow], versions: Mapping[str, int]) -> list[list[Any]]:
    values = (
        (row.name, row.zone_version, *progress_out(row, NATIVE)[1:], versions[row.name])
        for row in sorted(rows, key=attrgetter("name"))
    )
    return _once(_ADVANCED_ALIKE, short_arrays(len(_ADVANCED), values))


def _ticks(ticks: Sequence[TickRow]) -> list[list[Any]]:
    rows = (tick_out(tick, NATIVE) for tick in _firsts(ticks).values())
    return _once(_TICKS_ALIKE, short_arrays(len(TICK_COLUMNS), rows))


def _firsts(ticks: Sequence[TickRow]) -> dict[tuple[str, datetime], TickRow]:
    """The first of two counts."""
    return {tick.key: tick for tick in reversed(ticks)}


def _once(places: Iterable[int], columns: list[list[Any]]) -> list[list[Any]]:
    for place in places:
        columns[place] = once(columns[place]) if columns[place] else []
    return columns


@cache
def _statement(name: str) -> str:
    return statement("postgres", name)
