"""Expectations and the upkeep of the ledger in a SQLite file."""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime
from typing import Any

from warrener_store.encoding import encode
from warrener_store.records.codec import SQLITE_CODEC
from warrener_store.schedules.records import tick_from_row
from warrener_store.schedules.rows import TickRow
from warrener_store.schedules.tick_retention import TickRetention
from warrener_store.schedules.watch_reads import WatchReads
from warrener_store.schedules.watch_records import WATCH_COLUMNS, run_from_row, watch_from_row, watch_to_row
from warrener_store.schedules.watches import MAX_RUNS_EXAMINED, WatchedSchedule, Watches, WatchRow
from warrener_store.sqlite_transaction import WriteTransaction


class SqliteWatches(WatchReads, Watches, TickRetention):
    """A part of SqliteStore: its connections are used, and its turn as a writer."""

    codec = SQLITE_CODEC

    @abstractmethod
    def _writing(self) -> AbstractAsyncContextManager[WriteTransaction]:
        """A transaction that is committed at the end, or rolled back whatever goes wrong inside."""

    async def put_watches(self, rows: Sequence[WatchRow], over: Collection[str]) -> None:
        async with self._writing() as transaction:
            await transaction.run("remove_watches", [(encode(list(over)),)])
            await transaction.run("put_watch", (watch_to_row(row, SQLITE_CODEC) for row in rows))

    async def restart_watches(self, names: Collection[str], since: datetime) -> None:
        async with self._writing() as transaction:
            await transaction.run(
                "restart_watches", [(encode(list(names)), SQLITE_CODEC.encode_moment(since))]
            )

    async def claim_watches(self, now: datetime, until: datetime, limit: int) -> list[WatchedSchedule]:
        question = ("due_watches", SQLITE_CODEC.encode_moment(now), limit)
        if not await self._query(*question):
            return []  # most looks of another supervisor find nothing, and need not wait for the writer
        async with self._writing() as transaction:
            due = await transaction.query(*question)
            claims = [(values[0], SQLITE_CODEC.encode_moment(until)) for values in due]
            await transaction.run("claim_watch", claims)
        return [await self._watched(values, until) for values in due]

    async def _watched(self, values: Sequence[Any], until: datetime) -> WatchedSchedule:
        row = replace(watch_from_row(values, SQLITE_CODEC), look_at=until)
        since = SQLITE_CODEC.encode_moment(row.success_tick)
        runs = await self._query("newest_runs", row.name, since, MAX_RUNS_EXAMINED)
        return WatchedSchedule(
            row, bool(values[len(WATCH_COLUMNS)]), tuple(run_from_row(run, SQLITE_CODEC) for run in runs)
        )

    async def note_successes(self, rows: Sequence[WatchRow]) -> None:
        known = [
            (
                row.name,
                SQLITE_CODEC.encode_moment(row.success_tick),
                SQLITE_CODEC.encode_moment(row.succeeded_at),
            )
            for row in rows
            if row.success_tick is not None
        ]
        if known:
            async with self._writing() as transaction:
                await transaction.run("note_success", known)

    async def old_ticks(
        self, schedules: Collection[str], before: datetime, newest: int, limit: int
    ) -> list[TickRow]:
        parameters = (SQLITE_CODEC.encode_moment(before), newest, limit)
        found = [
            row
            for name in sorted(set(schedules))
            for row in await self._query("old_ticks", name, *parameters)
        ]
        return [tick_from_row(values, SQLITE_CODEC) for values in found]

    async def delete_ticks(self, keys: Collection[tuple[str, datetime]]) -> int:
        encoded_keys = encode([(schedule, SQLITE_CODEC.encode_moment(moment)) for schedule, moment in keys])
        async with self._writing() as transaction:
            return len(await transaction.query("delete_ticks", encoded_keys))
