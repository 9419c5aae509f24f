"""Triggers in PostgreSQL: each operation is one statement."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from warrener_store.arrays import compact_columns
from warrener_store.records.codec import POSTGRES_CODEC
from warrener_store.schedules.records import schedule_from_row
from warrener_store.schedules.rows import Advance, DueSchedule, ScheduleRow
from warrener_store.triggers.port import PORTION, Triggers
from warrener_store.triggers.records import (
    ARRIVAL_COLUMNS,
    address_from_row,
    address_to_row,
    arrival_from_row,
    arrival_outcome_to_row,
    arrival_to_row,
    is_triggered,
)
from warrener_store.triggers.rows import Address, ArrivalRow

Run = Callable[..., Awaitable[Sequence[Sequence[Any]]]]


class PostgresTriggers(Triggers):
    """Runs its statements as the state store does: `query` for questions, `change` for all else."""

    def __init__(self, query: Run, change: Run) -> None:
        self._query = query
        self._change = change

    async def waiting_schedules(self) -> list[ScheduleRow]:
        rows = (
            schedule_from_row(values, POSTGRES_CODEC) for values in await self._query("waiting_schedules")
        )
        return [row for row in rows if is_triggered(row)]

    async def add_bindings(self, addresses: Collection[Address]) -> None:
        if addresses:
            await self._change("note_bound", *compact_columns(2, map(address_to_row, addresses)))

    async def remove_bindings(self, addresses: Collection[Address]) -> None:
        if addresses:
            await self._change("forget_bound", *compact_columns(2, map(address_to_row, addresses)))

    async def bound(self) -> set[Address]:
        return {address_from_row(values) for values in await self._query("bound")}

    async def add_arrivals(self, rows: Sequence[ArrivalRow]) -> None:
        if rows:
            values = (arrival_to_row(row, POSTGRES_CODEC) for row in rows)
            await self._change("add_arrivals", *compact_columns(len(ARRIVAL_COLUMNS), values))

    async def arrivals_of(self, schedule: str) -> list[ArrivalRow]:
        return [
            arrival_from_row(values, POSTGRES_CODEC) for values in await self._query("arrivals_of", schedule)
        ]

    async def delete_open_arrivals(self, schedules: Collection[str]) -> None:
        if schedules:
            await self._change("drop_arrivals", list(schedules))

    async def delete_old_arrivals(self, received_before: datetime) -> None:
        await self._change("forget_arrivals", received_before)


async def with_arrivals(run: Run, due: Sequence[DueSchedule]) -> list[DueSchedule]:
    """Those that wait for events with what has come; the statement is run only where there is one."""
    names = [one.row.name for one in due if is_triggered(one.row)]
    if not names:
        return list(due)
    found: dict[str, list[ArrivalRow]] = {}
    for values in await run("open_arrivals", names, PORTION):
        row = arrival_from_row(values, POSTGRES_CODEC)
        found.setdefault(row.schedule, []).append(row)
    return [replace(one, arrivals=tuple(found.get(one.row.name, ()))) for one in due]


def settled(advances: Sequence[Advance]) -> list[list[Any]]:
    """The arrays of what has become of arrivals."""
    return compact_columns(
        3, (arrival_outcome_to_row(one, POSTGRES_CODEC) for advance in advances for one in advance.settled)
    )
