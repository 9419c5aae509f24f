"""Expectations and the upkeep of the ledger in memory. Nothing here awaits anything."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from uuid import UUID

from warrener_contracts.events import TickStatus
from warrener_contracts.state_machine import JobState
from warrener_store.rows import JobRow
from warrener_store.schedules.memory_ticks import MemoryTicks
from warrener_store.schedules.memory_wakes import MemoryWakes
from warrener_store.schedules.rows import ScheduleRow, TickRow
from warrener_store.schedules.tick_retention import TickRetention
from warrener_store.schedules.watches import MAX_RUNS_EXAMINED, RunRow, WatchedSchedule, Watches, WatchRow


class MemoryWatches(Watches, TickRetention):
    """A part of MemoryStore: it looks at its schedules, ticks and jobs."""

    _jobs: dict[UUID, JobRow]
    _schedules: dict[str, ScheduleRow]
    _ticks: MemoryTicks
    _wakes: MemoryWakes
    _watches: dict[str, WatchRow]

    async def put_watches(self, rows: Sequence[WatchRow], over: Collection[str]) -> None:
        for name in over:
            self._watches.pop(name, None)
        for row in rows:
            held = self._watches.get(row.name)
            self._watches[row.name] = (
                row
                if held is None
                else replace(
                    held,
                    pause_after=row.pause_after,
                    success_within=row.success_within,
                    look_at=min(held.look_at, row.look_at),
                )
            )

    async def restart_watches(self, names: Collection[str], since: datetime) -> None:
        for name in names:
            if (held := self._watches.get(name)) is not None:
                self._watches[name] = replace(held, since=max(held.since, since))

    async def claim_watches(self, now: datetime, until: datetime, limit: int) -> list[WatchedSchedule]:
        due = sorted((row.look_at, row.name) for row in self._watches.values() if row.look_at <= now)
        claimed = [replace(self._watches[name], look_at=until) for _, name in due[:limit]]
        self._watches.update((row.name, row) for row in claimed)
        return [
            WatchedSchedule(row, self._schedules[row.name].paused, self._runs(row))
            for row in claimed
            if row.name in self._schedules
        ]

    def _runs(self, row: WatchRow) -> tuple[RunRow, ...]:
        newest = islice(
            (tick for tick in self._ticks.of(row.name) if tick.job_id is not None), MAX_RUNS_EXAMINED
        )
        since = row.success_tick
        return tuple(self._run(tick) for tick in newest if since is None or tick.nominal_at >= since)

    def _run(self, tick: TickRow) -> RunRow:
        job = None if tick.job_id is None else self._jobs.get(tick.job_id)
        return RunRow(
            nominal_at=tick.nominal_at,
            decided_at=tick.decided_at,
            fired_at=tick.fired_at,
            state=None if job is None else job.state,
            finished_at=None if job is None else job.finished_at,
        )

    async def note_successes(self, rows: Sequence[WatchRow]) -> None:
        for row in rows:
            held = self._watches.get(row.name)
            if held is None or row.success_tick is None:
                continue
            if held.success_tick is None or held.success_tick < row.success_tick:
                self._watches[row.name] = replace(
                    held, success_tick=row.success_tick, succeeded_at=row.succeeded_at
                )

    async def late_schedules(self, before: datetime, until: datetime, limit: int) -> list[ScheduleRow]:
        rows = (self._schedules[name] for name in self._wakes.until(until, len(self._schedules)))
        return [row for row in rows if _is_late(row, before)][:limit]

    async def last_success(self, schedule: str) -> datetime | None:
        return self._last_success(schedule)

    def _last_success(self, schedule: str) -> datetime | None:
        newest = islice(
            (tick for tick in self._ticks.of(schedule) if tick.job_id is not None), MAX_RUNS_EXAMINED
        )
        succeeded = (tick.nominal_at for tick in newest if self._run(tick).state is JobState.SUCCEEDED)
        return next(succeeded, None)

    async def ticked_schedules(self, after: str, limit: int) -> list[str]:
        return self._ticks.schedules(after, limit)

    async def old_ticks(
        self, schedules: Collection[str], before: datetime, newest: int, limit: int
    ) -> list[TickRow]:
        return [
            tick
            for schedule in sorted(set(schedules))
            for tick in self._old(schedule, before, newest)[:limit]
        ]

    async def delete_ticks(self, keys: Collection[tuple[str, datetime]]) -> int:
        old = [
            tick
            for tick in map(self._ticks.get, keys)
            if tick is not None and tick.fate is not TickStatus.WAITING and tick.wake_at is None
        ]
        self._ticks.remove(old)
        return len(old)

    def _old(self, schedule: str, before: datetime, newest: int) -> list[TickRow]:
        """The oldest first."""
        if self._ticks.count(schedule) <= newest:
            return []
        behind = self._ticks.of(schedule)[newest:]
        return [
            tick
            for tick in reversed(behind)
            if tick.nominal_at < before and tick.fate is not TickStatus.WAITING and tick.wake_at is None
        ]


def _is_late(row: ScheduleRow, before: datetime) -> bool:
    return any(moment is not None and moment < before for moment in (row.wake_at, row.next_at))
