"""Schedules in memory: the plainest statement of what the port promises. Nothing here awaits anything."""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from warrener_contracts.events import TickStatus
from warrener_store.latest_by_key import latest_by_key
from warrener_store.rows import JobRow
from warrener_store.schedules.declarations import DeclarationRow, ScheduleDeclarations
from warrener_store.schedules.memory_ticks import MemoryTicks
from warrener_store.schedules.memory_wakes import MemoryWakes
from warrener_store.schedules.port import REMOVED, Decide, Schedules
from warrener_store.schedules.records import decode_definition, encode_definition
from warrener_store.schedules.rows import DueSchedule, ScheduleRow, TickRow
from warrener_store.schedules.watches import WatchRow
from warrener_store.triggers.memory import MemoryTriggers

_NAMED = "tick.previous_success"


class MemorySchedules(Schedules, ScheduleDeclarations):
    """A part of MemoryStore: it looks at its jobs."""

    _jobs: dict[UUID, JobRow]

    def __init__(self) -> None:
        self._schedules: dict[str, ScheduleRow] = {}
        self._wakes = MemoryWakes()
        self._ticks = MemoryTicks()
        self._watches: dict[str, WatchRow] = {}
        self._declarations: dict[tuple[str, str], DeclarationRow] = {}
        self._triggers = MemoryTriggers(self._schedules, self._hold)

    @property
    def triggers(self) -> MemoryTriggers:
        return self._triggers

    async def put_schedules(self, rows: Sequence[ScheduleRow]) -> set[str]:
        latest = latest_by_key(rows, lambda row: row.name, lambda row: row.put_at).values()
        return {row.name for row in latest if self._put(row)}

    def _put(self, row: ScheduleRow) -> bool:
        held = self._schedules.get(row.name)
        row = replace(row, asked=decode_definition(encode_definition(row.asked)))
        if held is None:
            self._hold(row)
            return True
        if held.put_at > row.put_at or held.asked == row.asked:
            return False
        changes = {
            name: getattr(row, name) for name in ("asked", "put_at", "zone_version", "next_at", "wake_at")
        }
        if held.waiting:
            changes["wake_at"] = row.put_at
        self._hold(replace(held, **changes))
        return True

    def _hold(self, row: ScheduleRow) -> None:
        self._schedules[row.name] = row
        self._wakes.set(row.name, row.wake_at)
        self._triggers.held(row)

    async def pause_schedules(self, names: Collection[str], *, paused: bool, why: str = "") -> None:
        for name in names:
            if name in self._schedules:
                self._hold(replace(self._schedules[name], paused=paused, paused_why=why))

    async def remove_schedules(self, names: Collection[str], now: datetime) -> None:
        for name in names:
            self._schedules.pop(name, None)
            self._wakes.set(name, None)
            self._triggers.removed(name)
            self._watches.pop(name, None)
            for tick in self._ticks.waiting(name):
                self._ticks.put(replace(tick, fate=TickStatus.SKIPPED, reason=REMOVED, decided_at=now))

    async def schedules(self, names: Collection[str] | None = None) -> dict[str, ScheduleRow]:
        requested = self._schedules if names is None else self._schedules.keys() & set(names)
        return {name: self._schedules[name] for name in sorted(requested)}

    async def advance_schedules(self, now: datetime, limit: int, decide: Decide) -> list[TickRow]:
        due = [self._due(self._schedules[name]) for name in self._wakes.until(now, limit)]
        advances = decide(due) if due else ()
        for advance in advances:
            held = self._schedules[advance.row.name]
            self._hold(
                replace(
                    advance.row,
                    asked=held.asked,
                    put_at=held.put_at,
                    paused=held.paused,
                    paused_why=held.paused_why,
                )
            )
        self._triggers.settle(one for advance in advances for one in advance.settled)
        return [tick for advance in advances for tick in advance.ticks if self._keep(tick)]

    def _due(self, row: ScheduleRow) -> DueSchedule:
        job = None if row.last_job_id is None else self._jobs.get(row.last_job_id)
        waiting = self._ticks.waiting(row.name)[:1] if row.waiting else []
        return DueSchedule(
            row,
            job.state if job else None,
            waiting[0].nominal_at if waiting else None,
            self._last_success(row.name) if _NAMED in str(row.asked.arguments) else None,
            self._triggers.open_for(row.name),
        )

    @abstractmethod
    def _last_success(self, schedule: str) -> datetime | None:
        """The newest tick whose job has succeeded."""

    def _keep(self, tick: TickRow) -> bool:
        held = self._ticks.get(tick.key)
        if held is None:
            self._ticks.put(tick)
            return True
        if held.fate is not TickStatus.WAITING or tick.fate is TickStatus.WAITING:
            return False
        self._ticks.put(replace(tick, due_at=held.due_at, fired_at=held.fired_at))
        return True

    async def add_ticks(self, ticks: Sequence[TickRow]) -> None:
        for tick in ticks:
            self._keep(tick)

    async def claim_ticks(self, now: datetime, until: datetime, limit: int) -> list[TickRow]:
        found = sorted(
            (tick.wake_at, tick.key, tick)
            for tick in self._ticks.unpublished()
            if tick.wake_at is not None and tick.wake_at <= now
        )
        claimed = [replace(tick, wake_at=until) for _, _, tick in found[:limit]]
        for tick in claimed:
            self._ticks.put(tick)
        return claimed

    async def mark_ticks(self, keys: Collection[tuple[str, datetime]], fired_at: datetime) -> None:
        for key in keys:
            tick = self._ticks.get(key)
            if tick is not None and tick.request is not None:
                self._ticks.put(replace(tick, fired_at=fired_at, wake_at=None, request=None))

    async def release_schedules(self, jobs: Collection[tuple[str, UUID]]) -> None:
        for name, job_id in jobs:
            row = self._schedules.get(name)
            if row is not None and row.last_job_id == job_id:
                self._schedules[name] = replace(row, last_job_id=None)

    async def next_schedule_wake(self) -> datetime | None:
        wakes = [self._wakes.earliest(), *(tick.wake_at for tick in self._ticks.unpublished())]
        return min((wake for wake in wakes if wake is not None), default=None)

    async def ticks_of(self, schedule: str, limit: int = 50) -> list[TickRow]:
        return self._ticks.of(schedule)[:limit]

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
        if held is not None and (held.job_id is not None or held.fate is TickStatus.WAITING):
            return False
        self._ticks.put(tick if held is None else replace(tick, due_at=held.due_at))
        return True

    async def ticks_between(self, schedule: str, begin: datetime, end: datetime) -> list[TickRow]:
        found = (tick for tick in self._ticks.of(schedule) if begin <= tick.nominal_at <= end)
        return sorted(found, key=lambda tick: tick.nominal_at)

    async def replan_schedules(self, zone_version: str, now: datetime) -> None:
        for row in list(self._schedules.values()):
            if row.zone_version != zone_version and row.wake_at is not None and row.wake_at > now:
                self._hold(replace(row, wake_at=now))
