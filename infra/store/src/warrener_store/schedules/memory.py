"""Schedules in memory: the plainest statement of what the port promises. Nothing here awaits anything."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from warrener_contracts.events import TickFate
from warrener_store.newest import newest
from warrener_store.rows import JobRow
from warrener_store.schedules.declarations import DeclarationRow, Declarations
from warrener_store.schedules.port import Decide, Schedules
from warrener_store.schedules.records import asked_in, asked_out
from warrener_store.schedules.rows import DueSchedule, ScheduleRow, TickRow


class MemorySchedules(Schedules, Declarations):
    """A part of MemoryStore: it looks at its jobs."""

    _jobs: dict[UUID, JobRow]

    def __init__(self) -> None:
        self._schedules: dict[str, ScheduleRow] = {}
        self._ticks: dict[tuple[str, datetime], TickRow] = {}
        self._declarations: dict[tuple[str, str], DeclarationRow] = {}

    async def put_schedules(self, rows: Sequence[ScheduleRow]) -> set[str]:
        told = newest(rows, lambda row: row.name, lambda row: row.put_at).values()
        return {row.name for row in told if self._put(row)}

    def _put(self, row: ScheduleRow) -> bool:
        held = self._schedules.get(row.name)
        row = replace(row, asked=asked_in(asked_out(row.asked)))
        if held is None:
            self._schedules[row.name] = row
            return True
        if held.put_at > row.put_at or held.asked == row.asked:
            return False
        self._schedules[row.name] = replace(
            held,
            asked=row.asked,
            put_at=row.put_at,
            zone_version=row.zone_version,
            next_at=row.next_at,
            wake_at=row.wake_at,
        )
        return True

    async def pause_schedules(self, names: Collection[str], *, paused: bool) -> None:
        for name in names:
            if name in self._schedules:
                self._schedules[name] = replace(self._schedules[name], paused=paused)

    async def remove_schedules(self, names: Collection[str]) -> None:
        for name in names:
            self._schedules.pop(name, None)

    async def schedules(self, names: Collection[str] | None = None) -> dict[str, ScheduleRow]:
        found = sorted(self._schedules.items())
        return {name: row for name, row in found if names is None or name in names}

    async def advance_schedules(self, now: datetime, limit: int, decide: Decide) -> list[TickRow]:
        waking = sorted(
            (row.wake_at, row.name)
            for row in self._schedules.values()
            if row.wake_at is not None and row.wake_at <= now
        )
        due = [self._due(self._schedules[name]) for _, name in waking[:limit]]
        advances = decide(due) if due else ()
        for advance in advances:
            held = self._schedules[advance.row.name]
            self._schedules[held.name] = replace(
                advance.row, asked=held.asked, put_at=held.put_at, paused=held.paused
            )
        return [tick for advance in advances for tick in advance.ticks if self._keep(tick)]

    def _due(self, row: ScheduleRow) -> DueSchedule:
        job = None if row.last_job_id is None else self._jobs.get(row.last_job_id)
        waiting = (
            tick.nominal_at
            for tick in self._ticks.values()
            if tick.schedule == row.name and tick.fate is TickFate.WAITING
        )
        return DueSchedule(
            row, job.state if job else None, min(waiting, default=None) if row.waiting else None
        )

    def _keep(self, tick: TickRow) -> bool:
        held = self._ticks.get(tick.key)
        if held is None:
            self._ticks[tick.key] = tick
            return True
        if held.fate is not TickFate.WAITING or tick.fate is TickFate.WAITING:
            return False
        self._ticks[tick.key] = replace(tick, due_at=held.due_at, fired_at=held.fired_at)
        return True

    async def add_ticks(self, ticks: Sequence[TickRow]) -> None:
        for tick in ticks:
            self._keep(tick)

    async def claim_ticks(self, now: datetime, until: datetime, limit: int) -> list[TickRow]:
        found = sorted(
            (tick.wake_at, tick.key)
            for tick in self._ticks.values()
            if tick.wake_at is not None and tick.wake_at <= now
        )
        for _, key in found[:limit]:
            self._ticks[key] = replace(self._ticks[key], wake_at=until)
        return [self._ticks[key] for _, key in found[:limit]]

    async def mark_ticks(self, keys: Collection[tuple[str, datetime]], fired_at: datetime) -> None:
        for key in keys:
            tick = self._ticks.get(key)
            if tick is not None and tick.request is not None:
                self._ticks[key] = replace(tick, fired_at=fired_at, wake_at=None, request=None)

    async def next_schedule_wake(self) -> datetime | None:
        wakes = [row.wake_at for row in self._schedules.values()]
        wakes += [tick.wake_at for tick in self._ticks.values()]
        return min((wake for wake in wakes if wake is not None), default=None)

    async def ticks_of(self, schedule: str, limit: int = 50) -> list[TickRow]:
        found = sorted(
            (tick for tick in self._ticks.values() if tick.schedule == schedule),
            key=lambda tick: tick.nominal_at,
            reverse=True,
        )
        return found[:limit]

    async def keep_declarations(self, rows: Sequence[DeclarationRow]) -> None:
        for row in rows:
            self._declarations.setdefault(row.key, row)

    async def declarations(
        self, names: Collection[str], job_types: Collection[str] = ()
    ) -> list[DeclarationRow]:
        found = (row for row in self._declarations.values() if row.name in names or row.job_type in job_types)
        return sorted(found, key=lambda row: (row.name, row.declared_at, row.fingerprint))

    async def backfill_ticks(self, ticks: Sequence[TickRow]) -> list[TickRow]:
        return [tick for tick in ticks if self._backfill(tick)]

    def _backfill(self, tick: TickRow) -> bool:
        held = self._ticks.get(tick.key)
        if held is not None and (held.job_id is not None or held.fate is TickFate.WAITING):
            return False
        self._ticks[tick.key] = tick if held is None else replace(tick, due_at=held.due_at)
        return True

    async def ticks_between(self, schedule: str, begin: datetime, end: datetime) -> list[TickRow]:
        found = (
            tick
            for tick in self._ticks.values()
            if tick.schedule == schedule and begin <= tick.nominal_at <= end
        )
        return sorted(found, key=lambda tick: tick.nominal_at)

    async def replan_schedules(self, zone_version: str, now: datetime) -> None:
        for name, row in self._schedules.items():
            if row.zone_version != zone_version and row.wake_at is not None and row.wake_at > now:
                self._schedules[name] = replace(row, wake_at=now)
