"""Triggers in a SQLite file: a batch is one transaction, as everywhere there."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime
from typing import Any

from warrener_store.encoding import encode
from warrener_store.records.codec import SQLITE_CODEC
from warrener_store.schedules.records import schedule_from_row
from warrener_store.schedules.rows import Advance, DueSchedule, ScheduleRow
from warrener_store.sqlite_transaction import WriteTransaction
from warrener_store.triggers.port import PORTION, Triggers
from warrener_store.triggers.records import (
    address_from_row,
    address_to_row,
    arrival_from_row,
    arrival_outcome_to_row,
    arrival_to_row,
    is_triggered,
)
from warrener_store.triggers.rows import Address, ArrivalRow


class SqliteTriggers(Triggers):
    """Reads and writes as the state store does."""

    def __init__(
        self,
        query: Callable[..., Awaitable[Sequence[Sequence[Any]]]],
        writing: Callable[[], AbstractAsyncContextManager[WriteTransaction]],
    ) -> None:
        self._query = query
        self._writing = writing

    async def waiting_schedules(self) -> list[ScheduleRow]:
        rows = (schedule_from_row(values, SQLITE_CODEC) for values in await self._query("waiting_schedules"))
        return [row for row in rows if is_triggered(row)]

    async def add_bindings(self, addresses: Collection[Address]) -> None:
        await self._run("note_bound", map(address_to_row, addresses))

    async def remove_bindings(self, addresses: Collection[Address]) -> None:
        await self._run("forget_bound", map(address_to_row, addresses))

    async def bound(self) -> set[Address]:
        return {address_from_row(values) for values in await self._query("bound")}

    async def add_arrivals(self, rows: Sequence[ArrivalRow]) -> None:
        if not rows:
            return
        async with self._writing() as transaction:
            names = {row.schedule for row in rows}
            there = {one[0] for one in await transaction.query("named_schedules", encode(list(names)))}
            requested = encode([(row.schedule, str(row.event_id)) for row in rows])
            known = {(one[0], one[1]) for one in await transaction.query("known_arrivals", requested)}
            new = [
                row
                for row in rows
                if row.schedule in there and (row.schedule, str(row.event_id)) not in known
            ]
            await transaction.run("add_arrival", (arrival_to_row(row, SQLITE_CODEC) for row in new))
            await transaction.run(
                "wake_schedule", ((row.schedule, SQLITE_CODEC.encode_moment(row.heard_at)) for row in new)
            )

    async def arrivals_of(self, schedule: str) -> list[ArrivalRow]:
        return [
            arrival_from_row(values, SQLITE_CODEC) for values in await self._query("arrivals_of", schedule)
        ]

    async def delete_open_arrivals(self, schedules: Collection[str]) -> None:
        if schedules:
            await self._run("drop_arrivals", [(encode(list(schedules)),)])

    async def delete_old_arrivals(self, received_before: datetime) -> None:
        await self._run("forget_arrivals", [(SQLITE_CODEC.encode_moment(received_before),)])

    async def _run(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        batch = list(rows)
        if batch:
            async with self._writing() as transaction:
                await transaction.run(name, batch)


async def with_arrivals(transaction: WriteTransaction, due: Sequence[DueSchedule]) -> list[DueSchedule]:
    """Those that wait for events with what has come."""
    return [await _with_arrivals(transaction, one) if is_triggered(one.row) else one for one in due]


async def _with_arrivals(transaction: WriteTransaction, due: DueSchedule) -> DueSchedule:
    found = await transaction.query("waiting_arrival", due.row.name)
    new = await transaction.query("new_arrivals", due.row.name, PORTION)
    return replace(due, arrivals=tuple(arrival_from_row(values, SQLITE_CODEC) for values in (*found, *new)))


async def settle(transaction: WriteTransaction, advances: Sequence[Advance]) -> None:
    """Keep what has become of arrivals."""
    settled = [arrival_outcome_to_row(one, SQLITE_CODEC) for advance in advances for one in advance.settled]
    if settled:
        await transaction.run("settle_arrival", settled)
