"""Schedules in a SQLite file: a batch is one transaction, so nothing changes between reading and writing."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from warrener_contracts.schedule_words import TickStatus
from warrener_store.batches import latest_by_key
from warrener_store.databases.session import Rows
from warrener_store.databases.transaction import TransactionalSession, WriteTransaction
from warrener_store.encoding import encode
from warrener_store.mapping import SQLITE_CODEC
from warrener_store.schedules import columns
from warrener_store.schedules.rows import (
    MAX_RUNS_EXAMINED,
    PORTION,
    Advance,
    ArrivalRow,
    DueSchedule,
    ScheduleRow,
    TickRow,
    WatchedSchedule,
)
from warrener_store.schedules.rules import expectation_of, is_triggered
from warrener_store.schedules.store import Decide, Schedules, TickRetention, Triggers, Watches

_text = SQLITE_CODEC.encode_moment


class SqliteSchedules(Schedules, TransactionalSession):
    """Schedules, ticks and declarations."""

    async def put_schedules(self, rows: Sequence[ScheduleRow]) -> set[str]:
        latest = latest_by_key(rows, lambda row: row.name, lambda row: row.put_at).values()
        requested = encode(
            [(row.name, columns.encode_definition(row.definition), _text(row.put_at)) for row in latest]
        )
        async with self._writing() as transaction:
            changed = {str(row[0]) for row in await transaction.query("replaceable_schedules", requested)}
            await transaction.run(
                "put_schedule", (columns.schedule_to_row(row, SQLITE_CODEC) for row in latest)
            )
            await _put_expectations(transaction, [row for row in latest if row.name in changed])
        return changed

    async def advance_schedules(self, now: datetime, limit: int, decide: Decide) -> list[TickRow]:
        if not await self._query("due_schedules", _text(now), 1):
            return []  # most calls find nothing, and need not wait for the writer
        async with self._writing() as transaction:
            found = await transaction.query("due_schedules", _text(now), limit)
            due = [columns.due_from_row(values, SQLITE_CODEC) for values in found]
            advances = decide([await _with_arrivals(transaction, one) for one in due])
            await _save_progress(transaction, advances)
            return await _put(transaction, [tick for advance in advances for tick in advance.ticks])

    async def add_ticks(self, ticks: Sequence[TickRow]) -> list[TickRow]:
        async with self._writing() as transaction:
            settled = {(row[0], row[1]) for row in await transaction.query("settled_ticks", _keys(ticks))}
            firsts = {tick.key: tick for tick in reversed(ticks)}
            stored = [
                tick for tick in firsts.values() if (tick.schedule, _text(tick.nominal_at)) not in settled
            ]
            await transaction.run("add_tick", (columns.TICKS.to_row(tick, SQLITE_CODEC) for tick in stored))
        return stored

    async def claim_ticks(self, now: datetime, until: datetime, limit: int) -> list[TickRow]:
        if not await self._query("unpublished_ticks", _text(now), 1):
            return []
        async with self._writing() as transaction:
            claimed = await transaction.query("unpublished_ticks", _text(now), limit)
            found = [columns.TICKS.from_row(values, SQLITE_CODEC) for values in claimed]
            claims = ((tick.schedule, _text(tick.nominal_at), _text(until)) for tick in found)
            await transaction.run("claim_tick", claims)
        return [replace(tick, wake_at=until) for tick in found]


class SqliteWatches(Watches, TickRetention, TransactionalSession):
    """Expectations of schedules, and old ticks."""

    async def claim_watches(self, now: datetime, until: datetime, limit: int) -> list[WatchedSchedule]:
        due = await self._claim(("due_watches", _text(now), limit), "claim_watches", _text(until))
        return [await self._watched(values, until) for values in due]

    async def _watched(self, values: Sequence[Any], until: datetime) -> WatchedSchedule:
        row = replace(columns.WATCHES.from_row(values, SQLITE_CODEC), check_at=until)
        since = SQLITE_CODEC.encode_moment(row.last_success_tick)
        runs = await self._query("newest_runs", row.name, since, MAX_RUNS_EXAMINED)
        paused = bool(values[len(columns.WATCHES.columns)])
        return WatchedSchedule(row, paused, tuple(columns.RUNS.from_row(run, SQLITE_CODEC) for run in runs))

    async def _old_ticks_of(
        self, schedules: Sequence[str], before: datetime, newest: int, limit: int
    ) -> Rows:
        return [
            row
            for name in schedules
            for row in await self._query("old_ticks", name, _text(before), newest, limit)
        ]

    async def delete_ticks(self, keys: Collection[tuple[str, datetime]]) -> int:
        encoded_keys = encode([(schedule, _text(moment)) for schedule, moment in keys])
        return len(await self._change("delete_ticks", encoded_keys))


class SqliteTriggers(Triggers, TransactionalSession):
    """The events that schedules wait for."""

    async def add_arrivals(self, rows: Sequence[ArrivalRow]) -> None:
        if not rows:
            return
        async with self._writing() as transaction:
            names = self._names({row.schedule for row in rows})
            there = {one[0] for one in await transaction.query("named_schedules", names)}
            requested = encode([(row.schedule, str(row.event_id)) for row in rows])
            known = {(one[0], one[1]) for one in await transaction.query("known_arrivals", requested)}
            new = [
                row
                for row in rows
                if row.schedule in there and (row.schedule, str(row.event_id)) not in known
            ]
            await transaction.run("add_arrival", (columns.ARRIVALS.to_row(row, SQLITE_CODEC) for row in new))
            await transaction.run("wake_schedule", ((row.schedule, _text(row.received_at)) for row in new))


async def _put_expectations(transaction: WriteTransaction, rows: Sequence[ScheduleRow]) -> None:
    expected = [one for row in rows if (one := expectation_of(row)) is not None]
    over = {row.name for row in rows} - {one.name for one in expected}
    await transaction.run("remove_watches", [(encode(sorted(over)),)])
    await transaction.run("put_watch", (columns.EXPECTATIONS.to_row(one, SQLITE_CODEC) for one in expected))


async def _with_arrivals(transaction: WriteTransaction, due: DueSchedule) -> DueSchedule:
    """Add the open arrivals to a schedule that waits for events."""
    if not is_triggered(due.row):
        return due
    waiting = await transaction.query("waiting_arrival", due.row.name)
    new = await transaction.query("new_arrivals", due.row.name, PORTION)
    arrivals = tuple(columns.ARRIVALS.from_row(values, SQLITE_CODEC) for values in (*waiting, *new))
    return replace(due, arrivals=arrivals)


async def _save_progress(transaction: WriteTransaction, advances: Sequence[Advance]) -> None:
    rows = (advance.row for advance in advances)
    progress = ((row.name, *columns.PROGRESS.to_row(row, SQLITE_CODEC)) for row in rows)
    await transaction.run("advance_schedule", progress)
    settled = (one for advance in advances for one in advance.settled)
    outcomes = (columns.ARRIVAL_OUTCOMES.to_row(one, SQLITE_CODEC) for one in settled)
    await transaction.run("settle_arrival", outcomes)


async def _put(transaction: WriteTransaction, ticks: Sequence[TickRow]) -> list[TickRow]:
    """Store these; returns those that are new, or that were waiting before."""
    held = {(row[0], row[1]): row[2] for row in await transaction.query("decided_ticks", _keys(ticks))}
    stored: list[TickRow] = []
    for tick in ticks:
        status = held.get((tick.schedule, _text(tick.nominal_at)))
        if status is None or (status == TickStatus.WAITING and tick.status is not TickStatus.WAITING):
            stored.append(tick)
    await transaction.run("put_tick", (columns.TICKS.to_row(tick, SQLITE_CODEC) for tick in stored))
    return stored


def _keys(ticks: Sequence[TickRow]) -> str:
    return encode([(tick.schedule, _text(tick.nominal_at)) for tick in ticks])
