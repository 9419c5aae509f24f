"""Expectations and the upkeep of the ledger in a SQLite file."""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime
from typing import Any

from warrener_store.encoding import encode
from warrener_store.records.form import TEXTUAL
from warrener_store.schedules.records import tick_in
from warrener_store.schedules.rows import TickRow
from warrener_store.schedules.upkeep import TickUpkeep
from warrener_store.schedules.watch_questions import WatchQuestions
from warrener_store.schedules.watch_records import WATCH_COLUMNS, run_in, watch_in, watch_out
from warrener_store.schedules.watches import NEWEST, Watched, Watches, WatchRow
from warrener_store.sqlite_transaction import Transaction


class SqliteWatches(WatchQuestions, Watches, TickUpkeep):
    """A part of SqliteStore: its connections are used, and its turn as a writer."""

    form = TEXTUAL

    @abstractmethod
    def _writing(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that is committed at the end, or rolled back whatever goes wrong inside."""

    async def put_watches(self, rows: Sequence[WatchRow], over: Collection[str]) -> None:
        async with self._writing() as transaction:
            await transaction.run("remove_watches", [(encode(list(over)),)])
            await transaction.run("put_watch", (watch_out(row, TEXTUAL) for row in rows))

    async def restart_watches(self, names: Collection[str], since: datetime) -> None:
        async with self._writing() as transaction:
            await transaction.run("restart_watches", [(encode(list(names)), TEXTUAL.moment_out(since))])

    async def claim_watches(self, now: datetime, until: datetime, limit: int) -> list[Watched]:
        question = ("due_watches", TEXTUAL.moment_out(now), limit)
        if not await self._ask(*question):
            return []  # most looks of another supervisor find nothing, and need not wait for the writer
        async with self._writing() as transaction:
            due = await transaction.ask(*question)
            claims = [(values[0], TEXTUAL.moment_out(until)) for values in due]
            await transaction.run("claim_watch", claims)
        return [await self._watched(values, until) for values in due]

    async def _watched(self, values: Sequence[Any], until: datetime) -> Watched:
        row = replace(watch_in(values, TEXTUAL), look_at=until)
        since = TEXTUAL.moment_out(row.success_tick)
        runs = await self._ask("newest_runs", row.name, since, NEWEST)
        return Watched(row, bool(values[len(WATCH_COLUMNS)]), tuple(run_in(run, TEXTUAL) for run in runs))

    async def note_successes(self, rows: Sequence[WatchRow]) -> None:
        known = [
            (row.name, TEXTUAL.moment_out(row.success_tick), TEXTUAL.moment_out(row.succeeded_at))
            for row in rows
            if row.success_tick is not None
        ]
        if known:
            async with self._writing() as transaction:
                await transaction.run("note_success", known)

    async def old_ticks(
        self, schedules: Collection[str], before: datetime, newest: int, limit: int
    ) -> list[TickRow]:
        asked = (TEXTUAL.moment_out(before), newest, limit)
        found = [row for name in sorted(set(schedules)) for row in await self._ask("old_ticks", name, *asked)]
        return [tick_in(values, TEXTUAL) for values in found]

    async def delete_ticks(self, keys: Collection[tuple[str, datetime]]) -> int:
        told = encode([(schedule, TEXTUAL.moment_out(moment)) for schedule, moment in keys])
        async with self._writing() as transaction:
            return len(await transaction.ask("delete_ticks", told))
