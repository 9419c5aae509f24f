"""Triggers in a SQLite file: a batch is one transaction, as everywhere there."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from warrener_store.encoding import encode
from warrener_store.records.form import TEXTUAL
from warrener_store.schedules.rows import Advance, DueSchedule
from warrener_store.triggers.port import PORTION, Triggers
from warrener_store.triggers.records import (
    arrival_in,
    arrival_out,
    settled_out,
    trigger_in,
    trigger_out,
    waits_for_events,
)
from warrener_store.triggers.rows import ArrivalRow, Trigger, TriggerRow


class Transaction(Protocol):
    """What is done between BEGIN and COMMIT."""

    async def ask(self, name: str, *parameters: Any) -> Sequence[Sequence[Any]]:
        """The rows that the statement of this name gives."""
        ...

    async def run(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run the statement of this name for each of these rows."""
        ...


class SqliteTriggers(Triggers):
    """Reads and writes as the state store does."""

    def __init__(
        self,
        ask: Callable[..., Awaitable[Sequence[Sequence[Any]]]],
        writing: Callable[[], AbstractAsyncContextManager[Transaction]],
    ) -> None:
        self._ask = ask
        self._writing = writing

    async def put_triggers(self, rows: Sequence[TriggerRow]) -> None:
        if rows:
            async with self._writing() as transaction:
                await transaction.run("put_trigger", map(trigger_out, rows))

    async def drop_triggers(self, schedules: Collection[str]) -> None:
        if schedules:
            names = encode(list(schedules))
            async with self._writing() as transaction:
                await transaction.run("drop_triggers", [(names,)])
                await transaction.run("drop_arrivals", [(names,)])

    async def all_triggers(self) -> list[Trigger]:
        return [trigger_in(values, TEXTUAL) for values in await self._ask("all_triggers")]

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

    async def forget_arrivals(self, heard_before: datetime) -> None:
        async with self._writing() as transaction:
            await transaction.run("forget_arrivals", [(TEXTUAL.moment_out(heard_before),)])


async def with_arrivals(transaction: Transaction, due: Sequence[DueSchedule]) -> list[DueSchedule]:
    """Those that wait for events with what has come."""
    return [await _with_arrivals(transaction, one) if waits_for_events(one) else one for one in due]


async def _with_arrivals(transaction: Transaction, due: DueSchedule) -> DueSchedule:
    found = await transaction.ask("waiting_arrival", due.row.name)
    new = await transaction.ask("new_arrivals", due.row.name, PORTION)
    return replace(due, arrivals=tuple(arrival_in(values, TEXTUAL) for values in (*found, *new)))


async def settle(transaction: Transaction, advances: Sequence[Advance]) -> None:
    """Keep what has become of arrivals."""
    settled = [settled_out(one, TEXTUAL) for advance in advances for one in advance.settled]
    if settled:
        await transaction.run("settle_arrival", settled)
