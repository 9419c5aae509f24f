"""Expectations and the upkeep of the ledger in PostgreSQL: each operation is one statement."""

from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from warrener_store.arrays import compact_columns
from warrener_store.records.codec import POSTGRES_CODEC
from warrener_store.schedules.records import tick_from_row
from warrener_store.schedules.rows import TickRow
from warrener_store.schedules.tick_retention import TickRetention
from warrener_store.schedules.watch_reads import WatchReads
from warrener_store.schedules.watch_records import (
    EXPECTATION_WIDTH,
    WATCH_COLUMNS,
    run_from_row,
    watch_from_row,
    watch_to_row,
)
from warrener_store.schedules.watches import MAX_RUNS_EXAMINED, WatchedSchedule, Watches, WatchRow

_PAUSED = len(WATCH_COLUMNS)


class PostgresWatches(WatchReads, Watches, TickRetention):
    """A part of PostgresStore: its connections are used."""

    codec = POSTGRES_CODEC
    _change: Any  # a method of PostgresStore, which tenacity has given a type of its own

    async def put_watches(self, rows: Sequence[WatchRow], over: Collection[str]) -> None:
        values = compact_columns(EXPECTATION_WIDTH, (watch_to_row(row, POSTGRES_CODEC) for row in rows))
        await self._change("put_watches", *values, list(over))

    async def restart_watches(self, names: Collection[str], since: datetime) -> None:
        await self._change("restart_watches", list(names), since)

    async def claim_watches(self, now: datetime, until: datetime, limit: int) -> list[WatchedSchedule]:
        found = await self._change("claim_watches", now, until, limit, MAX_RUNS_EXAMINED)
        return [_watched(list(lines)) for _, lines in groupby(found, key=itemgetter(0))]

    async def note_successes(self, rows: Sequence[WatchRow]) -> None:
        known = [row for row in rows if row.success_tick is not None]
        if known:
            columns = zip(*((row.name, row.success_tick, row.succeeded_at) for row in known), strict=True)
            await self._change("note_successes", *map(list, columns))

    async def old_ticks(
        self, schedules: Collection[str], before: datetime, newest: int, limit: int
    ) -> list[TickRow]:
        found = await self._query("old_ticks", sorted(set(schedules)), before, newest, limit)
        return [tick_from_row(values, POSTGRES_CODEC) for values in found]

    async def delete_ticks(self, keys: Collection[tuple[str, datetime]]) -> int:
        schedules, moments = ([key[0] for key in keys], [key[1] for key in keys])
        return len(await self._change("delete_ticks", schedules, moments)) if keys else 0


def _watched(lines: Sequence[Sequence[Any]]) -> WatchedSchedule:
    """A watch, and a line for each of its ticks; one without a tick where there is none."""
    runs = (line[_PAUSED + 1 :] for line in lines)
    return WatchedSchedule(
        watch_from_row(lines[0], POSTGRES_CODEC),
        bool(lines[0][_PAUSED]),
        tuple(run_from_row(run, POSTGRES_CODEC) for run in runs if run[0] is not None),
    )
