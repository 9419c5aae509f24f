"""Schedules in a SQLite file: what is decided about is held by the one writer's transaction."""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from warrener_contracts.events import TickStatus
from warrener_store.encoding import encode, escape
from warrener_store.newest import newest
from warrener_store.records.form import TEXTUAL
from warrener_store.schedules.port import REMOVED, Decide, Schedules
from warrener_store.schedules.questions import ScheduleQuestions
from warrener_store.schedules.records import (
    asked_out,
    due_in,
    progress_out,
    schedule_in,
    schedule_out,
    tick_in,
    tick_out,
)
from warrener_store.schedules.rows import Advance, ScheduleRow, TickRow
from warrener_store.sqlite_transaction import Transaction
from warrener_store.triggers.sqlite import settle, with_arrivals


class SqliteSchedules(ScheduleQuestions, Schedules):
    """A part of SqliteStore: its connections are used, and its turn as a writer."""

    form = TEXTUAL

    @abstractmethod
    def _writing(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that is committed at the end, or rolled back whatever goes wrong inside."""

    async def put_schedules(self, rows: Sequence[ScheduleRow]) -> set[str]:
        told = newest(rows, lambda row: row.name, lambda row: row.put_at).values()
        asked = encode([(row.name, asked_out(row.asked), _text(row.put_at)) for row in told])
        async with self._writing() as transaction:
            changed = {str(row[0]) for row in await transaction.ask("replaceable_schedules", asked)}
            await transaction.run("put_schedule", (schedule_out(row, TEXTUAL) for row in told))
        return changed

    async def pause_schedules(self, names: Collection[str], *, paused: bool, why: str = "") -> None:
        await self._write("pause_schedules", encode(list(names)), paused, escape(why))

    async def remove_schedules(self, names: Collection[str], now: datetime) -> None:
        gone = encode(list(names))
        async with self._writing() as transaction:
            await transaction.run("remove_schedules", [(gone,)])
            await transaction.run("remove_watches", [(gone,)])
            await transaction.run("skip_waiting", [(gone, REMOVED, _text(now))])

    async def schedules(self, names: Collection[str] | None = None) -> dict[str, ScheduleRow]:
        asked = None if names is None else encode(list(names))
        found = (schedule_in(values, TEXTUAL) for values in await self._ask("schedules", asked))
        return {row.name: row for row in found}

    async def advance_schedules(self, now: datetime, limit: int, decide: Decide) -> list[TickRow]:
        if not await self._ask("due_schedules", _text(now), 1):
            return []  # most looks of another scheduler find nothing, and need not wait for the writer
        async with self._writing() as transaction:
            found = await transaction.ask("due_schedules", _text(now), limit)
            due = [due_in(values, TEXTUAL) for values in found]
            return await _keep(transaction, decide(await with_arrivals(transaction, due)))

    async def add_ticks(self, ticks: Sequence[TickRow]) -> None:
        async with self._writing() as transaction:
            await _put(transaction, ticks)

    async def claim_ticks(self, now: datetime, until: datetime, limit: int) -> list[TickRow]:
        if not await self._ask("unpublished_ticks", _text(now), 1):
            return []
        async with self._writing() as transaction:
            claimed = await transaction.ask("unpublished_ticks", _text(now), limit)
            found = [tick_in(values, TEXTUAL) for values in claimed]
            claims = ((tick.schedule, _text(tick.nominal_at), _text(until)) for tick in found)
            await transaction.run("claim_tick", claims)
        return [replace(tick, wake_at=until) for tick in found]

    async def mark_ticks(self, keys: Collection[tuple[str, datetime]], fired_at: datetime) -> None:
        async with self._writing() as transaction:
            marks = ((schedule, _text(nominal_at), _text(fired_at)) for schedule, nominal_at in keys)
            await transaction.run("mark_tick", marks)

    async def release_schedules(self, jobs: Collection[tuple[str, UUID]]) -> None:
        async with self._writing() as transaction:
            await transaction.run("release_schedule", ((name, str(job_id)) for name, job_id in jobs))

    async def backfill_ticks(self, ticks: Sequence[TickRow]) -> list[TickRow]:
        async with self._writing() as transaction:
            keys = encode([(tick.schedule, _text(tick.nominal_at)) for tick in ticks])
            settled = {(row[0], row[1]) for row in await transaction.ask("settled_ticks", keys)}
            firsts = {tick.key: tick for tick in reversed(ticks)}
            kept = [
                tick for tick in firsts.values() if (tick.schedule, _text(tick.nominal_at)) not in settled
            ]
            await transaction.run("backfill_tick", (tick_out(tick, TEXTUAL) for tick in kept))
        return kept

    async def replan_schedules(self, zone_version: str, now: datetime) -> None:
        await self._write("replan_schedules", zone_version, _text(now))

    async def _write(self, name: str, *parameters: Any) -> None:
        async with self._writing() as transaction:
            await transaction.run(name, [parameters])


async def _keep(transaction: Transaction, advances: Sequence[Advance]) -> list[TickRow]:
    rows = (advance.row for advance in advances)
    advanced = ((row.name, row.zone_version, *progress_out(row, TEXTUAL)[1:]) for row in rows)
    await transaction.run("advance_schedule", advanced)
    await settle(transaction, advances)
    return await _put(transaction, [tick for advance in advances for tick in advance.ticks])


async def _put(transaction: Transaction, ticks: Sequence[TickRow]) -> list[TickRow]:
    """Keep these; those that are new, or that were waiting before."""
    keys = encode([(tick.schedule, _text(tick.nominal_at)) for tick in ticks])
    held = {(row[0], row[1]): row[2] for row in await transaction.ask("decided_ticks", keys)}
    kept = [tick for tick in ticks if _changes(tick, held.get((tick.schedule, _text(tick.nominal_at))))]
    await transaction.run("put_tick", (tick_out(tick, TEXTUAL) for tick in kept))
    return kept


def _changes(tick: TickRow, held: str | None) -> bool:
    return held is None or (held == TickStatus.WAITING and tick.fate is not TickStatus.WAITING)


def _text(moment: datetime) -> str:
    return str(TEXTUAL.moment_out(moment))
