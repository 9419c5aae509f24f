"""Schedules in PostgreSQL: no lock outlives a statement. A decision counts if its schedule has not changed
since it was read."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any
from uuid import UUID

from warrener_store.arrays import compact_columns, compact_repeats
from warrener_store.encoding import escape
from warrener_store.latest_by_key import latest_by_key
from warrener_store.literals import inline_values
from warrener_store.records.codec import POSTGRES_CODEC
from warrener_store.schedules.port import REMOVED, Decide, Schedules
from warrener_store.schedules.reads import ScheduleReads
from warrener_store.schedules.records import (
    SCHEDULE_COLUMNS,
    TICK_COLUMNS,
    due_from_row,
    progress_to_row,
    schedule_from_row,
    schedule_to_row,
    tick_from_row,
    tick_to_row,
)
from warrener_store.schedules.rows import ScheduleRow, TickRow
from warrener_store.sql import statement
from warrener_store.triggers.postgres import settled, with_arrivals

_PROGRESS = slice(SCHEDULE_COLUMNS.index("paused") + 1, SCHEDULE_COLUMNS.index("paused_why"))
_ADVANCED = ("name", "zone_version", *SCHEDULE_COLUMNS[_PROGRESS], "version")
# In most batches these say the same of all rows. None of them can be NULL, so the statement takes the first.
_ADVANCED_ALIKE = [_ADVANCED.index(name) for name in ("zone_version", "runs", "waiting")]
_TICKS_ALIKE = [TICK_COLUMNS.index(name) for name in ("fate", "due_at", "decided_at", "reason")]


class PostgresSchedules(ScheduleReads, Schedules):
    """A part of PostgresStore: its connections are used."""

    codec = POSTGRES_CODEC
    _change: Any  # two methods of PostgresStore, which tenacity has given a type of its own
    _change_all: Any

    async def put_schedules(self, rows: Sequence[ScheduleRow]) -> set[str]:
        latest = latest_by_key(rows, lambda row: row.name, lambda row: row.put_at).values()
        values = compact_columns(
            len(SCHEDULE_COLUMNS), (schedule_to_row(row, POSTGRES_CODEC) for row in latest)
        )
        return {row[0] for row in await self._change("put_schedules", *values)}

    async def pause_schedules(self, names: Collection[str], *, paused: bool, why: str = "") -> None:
        await self._change("pause_schedules", list(names), paused, escape(why))

    async def remove_schedules(self, names: Collection[str], now: datetime) -> None:
        gone = list(names)
        # Committed together. The second one sees the ticks that were kept while the first one waited.
        await self._change_all(
            inline_values(_statement("remove_schedules"), gone),
            inline_values(_statement("skip_waiting"), gone, REMOVED, now),
        )

    async def schedules(self, names: Collection[str] | None = None) -> dict[str, ScheduleRow]:
        requested = None if names is None else list(names)
        found = (
            schedule_from_row(values, POSTGRES_CODEC) for values in await self._query("schedules", requested)
        )
        return {row.name: row for row in found}

    async def advance_schedules(self, now: datetime, limit: int, decide: Decide) -> list[TickRow]:
        found = await self._query("due_schedules", now, limit)
        if not found:
            return []
        due = [due_from_row(values[:-1], POSTGRES_CODEC) for values in found]
        versions = {one.row.name: values[-1] for one, values in zip(due, found, strict=True)}
        advances = decide(await with_arrivals(self._query, due))
        ticks = [tick for advance in advances for tick in advance.ticks]
        progress = _advanced((advance.row for advance in advances), versions)
        saved = await self._change("advance_schedules", *progress, *_ticks(ticks), *settled(advances))
        stored_keys = {(row[0], row[1]) for row in saved}
        return [tick for tick in ticks if tick.key in stored_keys]

    async def add_ticks(self, ticks: Sequence[TickRow]) -> None:
        if ticks:
            await self._change("put_ticks", *_ticks(ticks))

    async def claim_ticks(self, now: datetime, until: datetime, limit: int) -> list[TickRow]:
        return [
            tick_from_row(values, POSTGRES_CODEC)
            for values in await self._change("claim_ticks", now, until, limit)
        ]

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
        stored_keys = {(row[0], row[1]) for row in await self._change("backfill_ticks", *_ticks(ticks))}
        return [tick for key, tick in _firsts(ticks).items() if key in stored_keys]

    async def replan_schedules(self, zone_version: str, now: datetime) -> None:
        await self._change("replan_schedules", zone_version, now)


def _advanced(rows: Iterable[ScheduleRow], versions: Mapping[str, int]) -> list[list[Any]]:
    values = (
        (row.name, row.zone_version, *progress_to_row(row, POSTGRES_CODEC)[1:], versions[row.name])
        for row in sorted(rows, key=attrgetter("name"))
    )
    return _compact(_ADVANCED_ALIKE, compact_columns(len(_ADVANCED), values))


def _ticks(ticks: Sequence[TickRow]) -> list[list[Any]]:
    rows = (tick_to_row(tick, POSTGRES_CODEC) for tick in _firsts(ticks).values())
    return _compact(_TICKS_ALIKE, compact_columns(len(TICK_COLUMNS), rows))


def _firsts(ticks: Sequence[TickRow]) -> dict[tuple[str, datetime], TickRow]:
    """The first of two counts."""
    return {tick.key: tick for tick in reversed(ticks)}


def _compact(places: Iterable[int], columns: list[list[Any]]) -> list[list[Any]]:
    for place in places:
        columns[place] = compact_repeats(columns[place]) if columns[place] else []
    return columns


@cache
def _statement(name: str) -> str:
    return statement("postgres", name)
