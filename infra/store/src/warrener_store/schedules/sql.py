"""Schedules in both databases: the operations that have the same statement in each."""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from datetime import datetime

from warrener_store.databases.session import Change, Rows, SqlSession
from warrener_store.encoding import escape, unescape
from warrener_store.mapping import encode_text
from warrener_store.schedules.columns import (
    ARRIVALS,
    DECLARATIONS,
    SUCCESSES,
    TICKS,
    schedule_from_row,
)
from warrener_store.schedules.port import (
    FIRST_TIME,
    LAST_TIME,
    REMOVED,
    ScheduleDeclarations,
    Schedules,
    TickRetention,
    Triggers,
    Watches,
)
from warrener_store.schedules.rows import (
    EXAMINED_SCHEDULES,
    Address,
    ArrivalRow,
    DeclarationRow,
    OldTicks,
    RejectedTick,
    ScheduleRow,
    TickRow,
    WatchRow,
)
from warrener_store.schedules.rules import is_triggered, page_of_old_ticks

_NO_LIMIT = 2**63 - 1


class SqlSchedules(SqlSession, Schedules, ScheduleDeclarations):
    """Schedules, ticks and declarations."""

    async def pause_schedules(
        self, names: Collection[str], now: datetime, *, paused: bool, why: str = ""
    ) -> None:
        named = self._names(names)
        changes: list[Change] = [("pause_schedules", (named, paused, escape(why)))]
        if not paused:
            changes.append(("restart_watches", (named, self.codec.encode_moment(now))))
        await self._change_together(*changes)

    async def remove_schedules(self, names: Collection[str], now: datetime) -> None:
        gone = self._names(names)
        await self._change_together(
            ("remove_schedules", (gone,)),
            ("remove_watches", (gone,)),
            ("drop_arrivals", (gone,)),
            # Last, so that it sees the ticks that were saved while the first one waited.
            ("skip_waiting", (gone, REMOVED, self.codec.encode_moment(now))),
        )

    async def schedules(
        self, names: Collection[str] | None = None, *, triggered: bool = False
    ) -> dict[str, ScheduleRow]:
        if triggered:
            found = await self._query("waiting_schedules")
        else:
            found = await self._query("schedules", None if names is None else self._names(names))
        rows = [schedule_from_row(values, self.codec) for values in found]
        if triggered:
            rows = [row for row in rows if is_triggered(row) and (names is None or row.name in names)]
        return {row.name: row for row in rows}

    async def mark_ticks(self, keys: Collection[tuple[str, datetime]], fired_at: datetime) -> None:
        moment = self.codec.encode_moment
        marks = [(schedule, moment(nominal_at), moment(fired_at)) for schedule, nominal_at in keys]
        await self._put_rows("mark_ticks", marks)

    async def reject_ticks(self, rejected: Sequence[RejectedTick]) -> None:
        rows = [(each.schedule, self.codec.encode_id(each.job_id)) for each in rejected]
        await self._put_rows("release_schedules", rows)
        reasons = [(*row, encode_text(each.reason)) for row, each in zip(rows, rejected, strict=True)]
        await self._put_rows("note_rejections", reasons)

    async def replan_schedules(self, zone_version: str, now: datetime) -> None:
        await self._change("replan_schedules", zone_version, self.codec.encode_moment(now))

    async def next_schedule_wake(self) -> datetime | None:
        found: datetime | None = self.codec.decode_moment((await self._query("next_schedule_wake"))[0][0])
        return found

    async def ticks_of(
        self,
        schedule: str,
        limit: int | None = 50,
        *,
        begin: datetime = FIRST_TIME,
        end: datetime = LAST_TIME,
    ) -> list[TickRow]:
        span = self.codec.encode_moment(begin), self.codec.encode_moment(end)
        found = await self._query("ticks_of", schedule, _NO_LIMIT if limit is None else limit, *span)
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

    async def old_ticks(self, after: str, before: datetime, newest: int, limit: int) -> OldTicks:
        named = await self._query("ticked_schedules", after, EXAMINED_SCHEDULES)
        names = [str(row[0]) for row in named]
        found = await self._old_ticks_of(names, before, newest, limit) if names else ()
        ticks = [TICKS.from_row(values, self.codec) for values in found]
        return page_of_old_ticks(after, names, ticks, limit)

    @abstractmethod
    async def _old_ticks_of(
        self, schedules: Sequence[str], before: datetime, newest: int, limit: int
    ) -> Rows: ...


class SqlTriggers(SqlSession, Triggers):
    """The events that schedules wait for."""

    async def add_bindings(self, addresses: Collection[Address]) -> set[Address]:
        bound = {(unescape(exchange), unescape(key)) for exchange, key in await self._query("bound")}
        missing = set(addresses) - bound
        await self._put_rows("note_bound", list(map(_address_to_row, missing)))
        return bound | missing

    async def remove_bindings(self, addresses: Collection[Address]) -> None:
        await self._put_rows("forget_bound", list(map(_address_to_row, addresses)))

    async def arrivals_of(self, schedule: str) -> list[ArrivalRow]:
        found = await self._query("arrivals_of", schedule)
        return [ARRIVALS.from_row(values, self.codec) for values in found]

    async def delete_old_arrivals(self, received_before: datetime) -> None:
        await self._change("forget_arrivals", self.codec.encode_moment(received_before))


def _address_to_row(address: Address) -> tuple[str, str]:
    exchange, key = address
    return escape(exchange), escape(key)
