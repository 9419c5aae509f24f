"""Schedules in both databases: the operations that have the same statement in each."""

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from warrener_store.databases.session import SqlSession
from warrener_store.encoding import escape, unescape
from warrener_store.schedules.columns import (
    ARRIVALS,
    DECLARATIONS,
    SUCCESSES,
    TICKS,
    schedule_from_row,
)
from warrener_store.schedules.port import ScheduleDeclarations, Schedules, TickRetention, Triggers, Watches
from warrener_store.schedules.rows import (
    Address,
    ArrivalRow,
    DeclarationRow,
    ScheduleRow,
    TickRow,
    WatchRow,
)
from warrener_store.schedules.rules import is_triggered


class SqlSchedules(SqlSession, Schedules, ScheduleDeclarations):
    """Schedules, ticks and declarations."""

    async def pause_schedules(self, names: Collection[str], *, paused: bool, why: str = "") -> None:
        await self._change("pause_schedules", self._names(names), paused, escape(why))

    async def schedules(self, names: Collection[str] | None = None) -> dict[str, ScheduleRow]:
        requested = None if names is None else self._names(names)
        found = await self._query("schedules", requested)
        rows = (schedule_from_row(values, self.codec) for values in found)
        return {row.name: row for row in rows}

    async def release_schedules(self, jobs: Collection[tuple[str, UUID]]) -> None:
        rows = [(name, self.codec.encode_id(job_id)) for name, job_id in jobs]
        await self._put_rows("release_schedules", rows)

    async def replan_schedules(self, zone_version: str, now: datetime) -> None:
        await self._change("replan_schedules", zone_version, self.codec.encode_moment(now))

    async def next_schedule_wake(self) -> datetime | None:
        found: datetime | None = self.codec.decode_moment((await self._query("next_schedule_wake"))[0][0])
        return found

    async def ticks_of(self, schedule: str, limit: int = 50) -> list[TickRow]:
        found = await self._query("ticks_of", schedule, limit)
        return [TICKS.from_row(values, self.codec) for values in found]

    async def ticks_between(self, schedule: str, begin: datetime, end: datetime) -> list[TickRow]:
        span = self.codec.encode_moment(begin), self.codec.encode_moment(end)
        found = await self._query("ticks_between", schedule, *span)
        return [TICKS.from_row(values, self.codec) for values in found]

    async def keep_declarations(self, rows: Sequence[DeclarationRow]) -> None:
        by_key = {row.key: row for row in reversed(rows)}
        values = [DECLARATIONS.to_row(row, self.codec) for _, row in sorted(by_key.items())]
        await self._put_rows("keep_declaration", values)

    async def declarations(
        self, names: Collection[str], job_types: Collection[str] = ()
    ) -> list[DeclarationRow]:
        found = await self._query("declarations", self._names(names), self._names(job_types))
        return [DECLARATIONS.from_row(values, self.codec) for values in found]


class SqlWatches(SqlSession, Watches, TickRetention):
    """Expectations of schedules, and old ticks."""

    async def restart_watches(self, names: Collection[str], since: datetime) -> None:
        await self._change("restart_watches", self._names(names), self.codec.encode_moment(since))

    async def note_successes(self, rows: Sequence[WatchRow]) -> None:
        known = [row for row in rows if row.last_success_tick is not None]
        await self._put_rows("note_successes", [SUCCESSES.to_row(row, self.codec) for row in known])

    async def late_schedules(self, before: datetime, until: datetime, limit: int) -> list[ScheduleRow]:
        moments = self.codec.encode_moment(before), self.codec.encode_moment(until)
        found = await self._query("late_schedules", *moments, limit)
        return [schedule_from_row(values, self.codec) for values in found]

    async def last_success(self, schedule: str) -> datetime | None:
        found: datetime | None = self.codec.decode_moment((await self._query("last_success", schedule))[0][0])
        return found

    async def ticked_schedules(self, after: str, limit: int) -> list[str]:
        return [str(row[0]) for row in await self._query("ticked_schedules", after, limit)]


class SqlTriggers(SqlSession, Triggers):
    """The events that schedules wait for."""

    async def waiting_schedules(self) -> list[ScheduleRow]:
        rows = [schedule_from_row(values, self.codec) for values in await self._query("waiting_schedules")]
        return [row for row in rows if is_triggered(row)]

    async def add_bindings(self, addresses: Collection[Address]) -> None:
        await self._put_rows("note_bound", list(map(_address_to_row, addresses)))

    async def remove_bindings(self, addresses: Collection[Address]) -> None:
        await self._put_rows("forget_bound", list(map(_address_to_row, addresses)))

    async def bound(self) -> set[Address]:
        return {(unescape(exchange), unescape(key)) for exchange, key in await self._query("bound")}

    async def arrivals_of(self, schedule: str) -> list[ArrivalRow]:
        found = await self._query("arrivals_of", schedule)
        return [ARRIVALS.from_row(values, self.codec) for values in found]

    async def delete_old_arrivals(self, received_before: datetime) -> None:
        await self._change("forget_arrivals", self.codec.encode_moment(received_before))


def _address_to_row(address: Address) -> tuple[str, str]:
    exchange, key = address
    return escape(exchange), escape(key)
