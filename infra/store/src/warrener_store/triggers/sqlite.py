"""Triggers in a SQLite file: a batch is one transaction, as everywhere there."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime
from typing import Any

from warrener_store.encoding import encode
from warrener_store.records.form import TEXTUAL
from warrener_store.schedules.records import schedule_in
from warrener_store.schedules.rows import Advance, DueSchedule, ScheduleRow
from warrener_store.sqlite_transaction import Transaction
from warrener_store.triggers.port import PORTION, Triggers
from warrener_store.triggers.records import (
    address_in,
    address_out,
    arrival_in,
    arrival_out,
    settled_out,
    waits,
)
from warrener_store.triggers.rows import Address, ArrivalRow


class SqliteTriggers(Triggers):
    """Reads and writes as the state store does."""

    def __init__(
        self,
        ask: Callable[..., Awaitable[Sequence[Sequence[Any]]]],
        writing: Callable[[], AbstractAsyncContextManager[Transaction]],
    ) -> None:
        self._ask = ask
        self._writing = writing

    async def waiting_schedules(self) -> list[ScheduleRow]:
        rows = (schedule_in(values, TEXTUAL) for values in await self._ask("waiting_schedules"))
        return [row for row in rows if waits(row)]

    async def note_bound(self, addresses: Collection[Address]) -> None:
        await self._run("note_bound", map(address_out, addresses))

    async def forget_bound(self, addresses: Collection[Address]) -> None:
        await self._run("forget_bound", map(address_out, addresses))

    async def bound(self) -> set[Address]:
        return {address_in(values) for values in await self._ask("bound")}

    async def add_arrivals(self, rows: Sequence[ArrivalRow]) -> None:
        if not rows:
            return
        async with self._writing() as transaction:
            names = {row.schedule for row in rows}
            there = {one[0] for one in await transaction.ask("named_schedules", encode(list(names)))}
            asked = encode([(row.schedule, str(row.event_id)) for row in rows])
            known = {(one[0], one[1]) for one in await transaction.ask("known_arrivals", asked)}
            new = [
                row
                for row in rows
                if row.schedule in there and (row.schedule, str(row.event_id)) not in known
            ]
            await transaction.run("add_arrival", (arrival_out(row, TEXTUAL) for row in new))
            await transaction.run(
                "wake_schedule", ((row.schedule, TEXTUAL.moment_out(row.heard_at)) for row in new)
            )

    async def arrivals_of(self, schedule: str) -> list[ArrivalRow]:
        return [arrival_in(values, TEXTUAL) for values in await self._ask("arrivals_of", schedule)]

    async def drop_arrivals(self, schedules: Collection[str]) -> None:
        if schedules:
            await self._run("drop_arrivals", [(encode(list(schedules)),)])

    async def forget_arrivals(self, heard_before: datetime) -> None:
        await self._run("forget_arrivals", [(TEXTUAL.moment_out(heard_before),)])

    async def _run(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        told = list(rows)
        if told:
            async with self._writing() as transaction:
                await transaction.run(name, told)


async def with_arrivals(transaction: Transaction, due: Sequence[DueSchedule]) -> list[DueSchedule]:
    """Those that wait for events with what has come."""
    return [await _with_arrivals(transaction, one) if waits(one.row) else one for one in due]


async def _with_arrivals(transaction: Transaction, due: DueSchedule) -> DueSchedule:
    found = await transaction.ask("waiting_arrival", due.row.name)
    new = await transaction.ask("new_arrivals", due.row.name, PORTION)
    return replace(due, arrivals=tuple(arrival_in(values, TEXTUAL) for values in (*found, *new)))


async def settle(transaction: Transaction, advances: Sequence[Advance]) -> None:
    """Keep what has become of arrivals."""
    settled = [settled_out(one, TEXTUAL) for advance in advances for one in advance.settled]
    if settled:
        await transaction.run("settle_arrival", settled)
