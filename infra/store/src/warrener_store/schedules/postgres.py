"""Schedules in PostgreSQL: what is decided about is held by its row locks, and by nothing else."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from asyncpg import InterfaceError, PostgresError

from warrener_store.address import PostgresAddress
from warrener_store.arrays import once, short_arrays
from warrener_store.encoding import escape
from warrener_store.failures import translated
from warrener_store.newest import newest
from warrener_store.pool import Pool
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
from warrener_store.triggers.postgres import Run, settle, with_arrivals

if TYPE_CHECKING:
    from warrener_store.postgres_driver import Connection

_PROGRESS = slice(SCHEDULE_COLUMNS.index("paused") + 1, SCHEDULE_COLUMNS.index("paused_why"))
_ADVANCED = ("name", "zone_version", *SCHEDULE_COLUMNS[_PROGRESS])
# In most batches these say the same of all rows. None of them can be NULL, so the statement takes the first.
_ADVANCED_ALIKE = [_ADVANCED.index(name) for name in ("zone_version", "runs", "waiting")]
_TICKS_ALIKE = [TICK_COLUMNS.index(name) for name in ("fate", "due_at", "decided_at", "reason")]


class PostgresSchedules(ScheduleQuestions, Schedules):
    """A part of PostgresStore: its connections are used."""

    form = NATIVE
    _pool: "Pool[Connection]"
    _address: PostgresAddress
    _change: Any  # a method of PostgresStore, which tenacity has given a type of its own

    async def put_schedules(self, rows: Sequence[ScheduleRow]) -> set[str]:
        told = newest(rows, lambda row: row.name, lambda row: row.put_at).values()
        values = short_arrays(len(SCHEDULE_COLUMNS), (schedule_out(row, NATIVE) for row in told))
        return {row[0] for row in await self._change("put_schedules", *values)}

    async def pause_schedules(self, names: Collection[str], *, paused: bool, why: str = "") -> None:
        await self._change("pause_schedules", list(names), paused, escape(why))

    async def remove_schedules(self, names: Collection[str], now: datetime) -> None:
        gone = list(names)
        async with self._transaction() as run:
            # Two statements: the second sees what whoever held a schedule has added to its ledger.
            await run("remove_schedules", gone)
            await run("skip_waiting", gone, REMOVED, now)

    async def schedules(self, names: Collection[str] | None = None) -> dict[str, ScheduleRow]:
        asked = None if names is None else list(names)
        found = (schedule_in(values, NATIVE) for values in await self._ask("schedules", asked))
        return {row.name: row for row in found}

    async def advance_schedules(self, now: datetime, limit: int, decide: Decide) -> list[TickRow]:
        async with self._transaction() as run:
            due = [due_in(values, NATIVE) for values in await run("due_schedules", now, limit)]
            if not due:
                return []
            advances = decide(await with_arrivals(run, due))
            ticks = [tick for advance in advances for tick in advance.ticks]
            progress = _advanced(advance.row for advance in advances)
            await settle(run, advances)
            kept = {(row[0], row[1]) for row in await run("advance_schedules", *progress, *_ticks(ticks))}
        return [tick for tick in ticks if tick.key in kept]

    @asynccontextmanager
    async def _transaction(self) -> AsyncGenerator[Run]:
        """Runs statements by their names, and commits at the end. A connection that does not answer is not
        asked to roll back either: the server does that when it is closed."""
        with translated(self._address):
            async with self._pool.lent() as connection:

                async def run(name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
                    # A Record is a sequence of its values, but its stubs do not say so.
                    return cast("list[Sequence[Any]]", await connection.fetch(_statement(name), *parameters))

                await connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                try:
                    yield run
                    await connection.execute("COMMIT")
                except (TimeoutError, asyncio.CancelledError):
                    raise
                except BaseException:
                    with suppress(PostgresError, InterfaceError, ConnectionError):
                        await connection.execute("ROLLBACK")
                    raise

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


def _advanced(rows: Iterable[ScheduleRow]) -> list[list[Any]]:
    values = ((row.name, row.zone_version, *progress_out(row, NATIVE)[1:]) for row in rows)
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
