"""Triggers in PostgreSQL: each operation is one statement."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from warrener_store.arrays import short_arrays
from warrener_store.records.form import NATIVE
from warrener_store.schedules.records import schedule_in
from warrener_store.schedules.rows import Advance, DueSchedule, ScheduleRow
from warrener_store.triggers.port import PORTION, Triggers
from warrener_store.triggers.records import (
    ARRIVAL_COLUMNS,
    address_in,
    address_out,
    arrival_in,
    arrival_out,
    settled_out,
    waits,
)
from warrener_store.triggers.rows import Address, ArrivalRow

Run = Callable[..., Awaitable[Sequence[Sequence[Any]]]]


class PostgresTriggers(Triggers):
    """Runs its statements as the state store does: `ask` for questions, `change` for all else."""

    def __init__(self, ask: Run, change: Run) -> None:
        self._ask = ask
        self._change = change

    async def waiting_schedules(self) -> list[ScheduleRow]:
        rows = (schedule_in(values, NATIVE) for values in await self._ask("waiting_schedules"))
        return [row for row in rows if waits(row)]

    async def note_bound(self, addresses: Collection[Address]) -> None:
        if addresses:
            await self._change("note_bound", *short_arrays(2, map(address_out, addresses)))

    async def forget_bound(self, addresses: Collection[Address]) -> None:
        if addresses:
            await self._change("forget_bound", *short_arrays(2, map(address_out, addresses)))

    async def bound(self) -> set[Address]:
        return {address_in(values) for values in await self._ask("bound")}

    async def add_arrivals(self, rows: Sequence[ArrivalRow]) -> None:
        if rows:
            values = (arrival_out(row, NATIVE) for row in rows)
            await self._change("add_arrivals", *short_arrays(len(ARRIVAL_COLUMNS), values))

    async def arrivals_of(self, schedule: str) -> list[ArrivalRow]:
        return [arrival_in(values, NATIVE) for values in await self._ask("arrivals_of", schedule)]

    async def drop_arrivals(self, schedules: Collection[str]) -> None:
        if schedules:
            await self._change("drop_arrivals", list(schedules))

    async def forget_arrivals(self, heard_before: datetime) -> None:
        await self._change("forget_arrivals", heard_before)


async def with_arrivals(run: Run, due: Sequence[DueSchedule]) -> list[DueSchedule]:
    """Those that wait for events with what has come; the statement is run only where there is one."""
    names = [one.row.name for one in due if waits(one.row)]
    if not names:
        return list(due)
    found: dict[str, list[ArrivalRow]] = {}
    for values in await run("open_arrivals", names, PORTION):
        row = arrival_in(values, NATIVE)
        found.setdefault(row.schedule, []).append(row)
    return [replace(one, arrivals=tuple(found.get(one.row.name, ()))) for one in due]


def settled(advances: Sequence[Advance]) -> list[list[Any]]:
    """The arrays of what has become of arrivals."""
    return short_arrays(3, (settled_out(one, NATIVE) for advance in advances for one in advance.settled))
