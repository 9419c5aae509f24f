"""The events that schedules wait for, in memory. Nothing here awaits anything."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from uuid import UUID

from warrener_store.schedules.port import Triggers
from warrener_store.schedules.rows import PORTION, Address, ArrivalOutcome, ArrivalRow, ScheduleRow
from warrener_store.schedules.rules import is_triggered


class MemoryTriggers(Triggers):
    """Beside the schedules of a MemoryStore."""

    def __init__(self, schedules: Mapping[str, ScheduleRow], hold: Callable[[ScheduleRow], None]) -> None:
        self._schedules = schedules
        self._hold = hold  # inserts or replaces a schedule
        self._waiting: dict[str, ScheduleRow] = {}
        self._bound: set[Address] = set()
        self._arrivals: dict[tuple[str, UUID], ArrivalRow] = {}

    @property
    def waiting(self) -> Mapping[str, ScheduleRow]:
        """The schedules that wait for events."""
        return self._waiting

    async def add_bindings(self, addresses: Collection[Address]) -> set[Address]:
        self._bound.update(addresses)
        return set(self._bound)

    async def remove_bindings(self, addresses: Collection[Address]) -> None:
        self._bound.difference_update(addresses)

    async def add_arrivals(self, rows: Sequence[ArrivalRow]) -> None:
        for row in rows:
            key, held = (row.schedule, row.event_id), self._schedules.get(row.schedule)
            if held is None or key in self._arrivals:
                continue
            self._arrivals[key] = row
            wake_at = row.received_at if held.wake_at is None else min(held.wake_at, row.received_at)
            self._hold(replace(held, wake_at=wake_at))

    async def arrivals_of(self, schedule: str) -> list[ArrivalRow]:
        found = (row for row in self._arrivals.values() if row.schedule == schedule and row.event is not None)
        return sorted(found, key=lambda row: (row.occurred_at, row.event_id))

    async def delete_old_arrivals(self, received_before: datetime) -> None:
        for key, row in list(self._arrivals.items()):
            if row.received_at < received_before and (row.event is None or row.schedule not in self._waiting):
                del self._arrivals[key]

    def held(self, row: ScheduleRow) -> None:
        """A schedule was inserted or replaced."""
        if is_triggered(row):
            self._waiting[row.name] = row
        else:
            self._waiting.pop(row.name, None)

    def removed(self, name: str) -> None:
        """A schedule was removed."""
        self._waiting.pop(name, None)
        for key, row in list(self._arrivals.items()):
            if row.schedule == name and row.event is not None:
                del self._arrivals[key]

    def open_for(self, schedule: str) -> tuple[ArrivalRow, ...]:
        """The arrivals to decide about: those of the longest waiting tick, then the new ones."""
        found = [row for row in self._arrivals.values() if row.schedule == schedule and row.event is not None]
        waiting = min((row.nominal_at for row in found if row.nominal_at is not None), default=None)
        new = sorted(
            (row for row in found if row.nominal_at is None), key=lambda row: (row.occurred_at, row.event_id)
        )
        first = [row for row in found if waiting is not None and row.nominal_at == waiting]
        return (*first, *islice(new, PORTION))

    def settle(self, settled: Iterable[ArrivalOutcome]) -> None:
        """Store the outcomes of arrivals."""
        for one in settled:
            row = self._arrivals.get((one.schedule, one.event_id))
            if row is not None:
                event = None if one.nominal_at is None else row.event
                self._arrivals[one.schedule, one.event_id] = replace(
                    row, nominal_at=one.nominal_at, event=event
                )
