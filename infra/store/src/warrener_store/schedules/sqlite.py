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
from warrener_store.latest_by_key import latest_by_key
from warrener_store.records.codec import SQLITE_CODEC
from warrener_store.schedules.port import REMOVED, Decide, Schedules
from warrener_store.schedules.reads import ScheduleReads
from warrener_store.schedules.records import (
    due_from_row,
    encode_definition,
    progress_to_row,
    schedule_from_row,
    schedule_to_row,
    tick_from_row,
    tick_to_row,
)
from warrener_store.schedules.rows import Advance, ScheduleRow, TickRow
from warrener_store.sqlite_transaction import WriteTransaction
from warrener_store.triggers.sqlite import settle, with_arrivals


class SqliteSchedules(ScheduleReads, Schedules):
    """A part of SqliteStore: its connections are used, and its turn as a writer."""

    codec = SQLITE_CODEC

    @abstractmethod
    def _writing(self) -> AbstractAsyncContextManager[WriteTransaction]:
        """A transaction that is committed at the end, or rolled back whatever goes wrong inside."""

    async def put_schedules(self, rows: Sequence[ScheduleRow]) -> set[str]:
        latest = latest_by_key(rows, lambda row: row.name, lambda row: row.put_at).values()
        requested = encode([(row.name, encode_definition(row.asked), _text(row.put_at)) for row in latest])
        async with self._writing() as transaction:
            changed = {str(row[0]) for row in await transaction.query("replaceable_schedules", requested)}
            await transaction.run("put_schedule", (schedule_to_row(row, SQLITE_CODEC) for row in latest))
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
        requested = None if names is None else encode(list(names))
        found = (
            schedule_from_row(values, SQLITE_CODEC) for values in await self._query("schedules", requested)
        )
        return {row.name: row for row in found}

    async def advance_schedules(self, now: datetime, limit: int, decide: Decide) -> list[TickRow]:
        if not await self._query("due_schedules", _text(now), 1):
            return []  # most looks of another scheduler find nothing, and need not wait for the writer
        async with self._writing() as transaction:
            found = await transaction.query("due_schedules", _text(now), limit)
            due = [due_from_row(values, SQLITE_CODEC) for values in found]
            return await _keep(transaction, decide(await with_arrivals(transaction, due)))

    async def add_ticks(self, ticks: Sequence[TickRow]) -> None:
        async with self._writing() as transaction:
            await _put(transaction, ticks)

    async def claim_ticks(self, now: datetime, until: datetime, limit: int) -> list[TickRow]:
        if not await self._query("unpublished_ticks", _text(now), 1):
            return []
        async with self._writing() as transaction:
            claimed = await transaction.query("unpublished_ticks", _text(now), limit)
            found = [tick_from_row(values, SQLITE_CODEC) for values in claimed]
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
            settled = {(row[0], row[1]) for row in await transaction.query("settled_ticks", keys)}
            firsts = {tick.key: tick for tick in reversed(ticks)}
            stored = [
                tick for tick in firsts.values() if (tick.schedule, _text(tick.nominal_at)) not in settled
            ]
            await transaction.run("backfill_tick", (tick_to_row(tick, SQLITE_CODEC) for tick in stored))
        return stored

    async def replan_schedules(self, zone_version: str, now: datetime) -> None:
        await self._write("replan_schedules", zone_version, _text(now))

    async def _write(self, name: str, *parameters: Any) -> None:
        async with self._writing() as transaction:
            await transaction.run(name, [parameters])


async def _keep(transaction: WriteTransaction, advances: Sequence[Advance]) -> list[TickRow]:
    rows = (advance.row for advance in advances)
    advanced = ((row.name, row.zone_version, *progress_to_row(row, SQLITE_CODEC)[1:]) for row in rows)
    await transaction.run("advance_schedule", advanced)
    await settle(transaction, advances)
    return await _put(transaction, [tick for advance in advances for tick in advance.ticks])


async def _put(transaction: WriteTransaction, ticks: Sequence[TickRow]) -> list[TickRow]:
    """Keep these; those that are new, or that were waiting before."""
    keys = encode([(tick.schedule, _text(tick.nominal_at)) for tick in ticks])
    held = {(row[0], row[1]): row[2] for row in await transaction.query("decided_ticks", keys)}
    stored = [tick for tick in ticks if _changes(tick, held.get((tick.schedule, _text(tick.nominal_at))))]
    await transaction.run("put_tick", (tick_to_row(tick, SQLITE_CODEC) for tick in stored))
    return stored


def _changes(tick: TickRow, held: str | None) -> bool:
    return held is None or (held == TickStatus.WAITING and tick.fate is not TickStatus.WAITING)


def _text(moment: datetime) -> str:
    return str(SQLITE_CODEC.encode_moment(moment))
