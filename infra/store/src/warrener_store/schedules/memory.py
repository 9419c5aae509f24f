"""Schedules in memory: the plainest statement of what the ports promise. Nothing here awaits anything."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from uuid import UUID

from warrener_contracts.events import TickStatus
from warrener_contracts.state_machine import JobState
from warrener_store.batches import latest_by_key
from warrener_store.jobs.rows import JobRow
from warrener_store.schedules.columns import decode_definition, encode_definition
from warrener_store.schedules.memory_indexes import MemoryTicks, MemoryWakes
from warrener_store.schedules.memory_triggers import MemoryTriggers
from warrener_store.schedules.port import (
    FIRST_TIME,
    LAST_TIME,
    REMOVED,
    Decide,
    ScheduleDeclarations,
    ScheduleLists,
    Schedules,
    TickRetention,
    Watches,
)
from warrener_store.schedules.rows import (
    EXAMINED_SCHEDULES,
    MAX_RUNS_EXAMINED,
    DeclarationRow,
    DueSchedule,
    OldTicks,
    RejectedTick,
    RunRow,
    ScheduledRun,
    ScheduleFilter,
    ScheduleRow,
    TickRow,
    WatchedSchedule,
    WatchRow,
)
from warrener_store.schedules.rules import expectation_of, page_of_old_ticks

_NAMED = "tick.previous_success"


class MemorySchedules(Schedules, ScheduleLists, ScheduleDeclarations, Watches, TickRetention):
    """A part of MemoryStore: it reads its jobs."""

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
        changed = [row for row in latest if self._put(row)]
        for row in changed:
            self._expect(row)
        return {row.name for row in changed}

    def _put(self, row: ScheduleRow) -> bool:
        held = self._schedules.get(row.name)
        row = replace(row, definition=decode_definition(encode_definition(row.definition)))
        if held is None:
            self._hold(row)
            return True
        if held.put_at > row.put_at or held.definition == row.definition:
            return False
        changes = {
            name: getattr(row, name)
            for name in ("definition", "put_at", "zone_version", "next_at", "wake_at")
        }
        if held.waiting:
            changes["wake_at"] = row.put_at
        self._hold(replace(held, **changes))
        return True

    def _expect(self, row: ScheduleRow) -> None:
        new, held = expectation_of(row), self._watches.pop(row.name, None)
        if new is not None and held is not None:
            check_at = min(held.check_at, new.check_at)
            new = replace(
                held, pause_after=new.pause_after, success_within=new.success_within, check_at=check_at
            )
        if new is not None:
            self._watches[row.name] = new

    def _hold(self, row: ScheduleRow) -> None:
        self._schedules[row.name] = row
        self._wakes.set(row.name, row.wake_at)
        self._triggers.held(row)

    async def pause_schedules(
        self, names: Collection[str], now: datetime, *, paused: bool, why: str = ""
    ) -> None:
        for name in names:
            if name in self._schedules:
                self._hold(replace(self._schedules[name], paused=paused, pause_reason=why))
            if not paused and (watch := self._watches.get(name)) is not None:
                self._watches[name] = replace(watch, since=max(watch.since, now))

    async def remove_schedules(self, names: Collection[str], now: datetime) -> None:
        for name in names:
            self._schedules.pop(name, None)
            self._wakes.set(name, None)
            self._triggers.removed(name)
            self._watches.pop(name, None)
            for tick in self._ticks.waiting(name):
                self._ticks.put(replace(tick, status=TickStatus.SKIPPED, reason=REMOVED, decided_at=now))

    async def schedules(
        self, names: Collection[str] | None = None, *, triggered: bool = False
    ) -> dict[str, ScheduleRow]:
        rows = self._triggers.waiting if triggered else self._schedules
        requested = rows if names is None else rows.keys() & set(names)
        return {name: rows[name] for name in sorted(requested)}

    async def advance_schedules(self, now: datetime, limit: int, decide: Decide) -> list[TickRow]:
        due = [self._due(self._schedules[name]) for name in self._wakes.until(now, limit)]
        advances = decide(due) if due else ()
        for advance in advances:
            held = self._schedules[advance.row.name]
            self._hold(
                replace(
                    advance.row,
                    definition=held.definition,
                    put_at=held.put_at,
                    paused=held.paused,
                    pause_reason=held.pause_reason,
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
            self._last_success(row.name) if _NAMED in str(row.definition.arguments) else None,
            self._triggers.open_for(row.name),
        )

    def _keep(self, tick: TickRow) -> bool:
        held = self._ticks.get(tick.key)
        if held is None:
            self._ticks.put(tick)
            return True
        if held.status is not TickStatus.WAITING or tick.status is TickStatus.WAITING:
            return False
        self._ticks.put(replace(tick, due_at=held.due_at, fired_at=held.fired_at))
        return True

    async def add_ticks(self, ticks: Sequence[TickRow]) -> list[TickRow]:
        return [tick for tick in ticks if self._add(tick)]

    def _add(self, tick: TickRow) -> bool:
        held = self._ticks.get(tick.key)
        if held is not None and (held.job_id is not None or held.status is TickStatus.WAITING):
            return False
        self._ticks.put(tick if held is None else replace(tick, due_at=held.due_at))
        return True

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

    async def reject_ticks(self, rejected: Sequence[RejectedTick]) -> None:
        for each in rejected:
            row = self._schedules.get(each.schedule)
            if row is not None and row.last_job_id == each.job_id:
                self._schedules[each.schedule] = replace(row, last_job_id=None)
            for tick in self._ticks.of(each.schedule)[:1000]:
                if tick.job_id == each.job_id:
                    self._ticks.put(replace(tick, reason=each.reason))

    async def next_schedule_wake(self) -> datetime | None:
        wakes = [self._wakes.earliest(), *(tick.wake_at for tick in self._ticks.unpublished())]
        return min((wake for wake in wakes if wake is not None), default=None)

    async def ticks_of(
        self,
        schedule: str,
        limit: int | None = 50,
        *,
        begin: datetime = FIRST_TIME,
        end: datetime = LAST_TIME,
    ) -> list[TickRow]:
        found = self._ticks.of(schedule)
        if (begin, end) != (FIRST_TIME, LAST_TIME):
            found = [tick for tick in found if begin <= tick.nominal_at <= end]
        return found[:limit]

    async def list_schedules(self, which: ScheduleFilter) -> list[ScheduleRow]:
        rows = (self._schedules[name] for name in sorted(self._schedules) if name > which.after)
        return list(islice((row for row in rows if _is_listed(row, which)), which.limit))

    async def runs_of(
        self, schedules: Collection[str], limit: int, *, before: datetime = LAST_TIME
    ) -> dict[str, list[ScheduledRun]]:
        return {
            name: [
                self._scheduled_run(tick)
                for tick in islice((tick for tick in self._ticks.of(name) if tick.nominal_at < before), limit)
            ]
            for name in schedules
        }

    def _scheduled_run(self, tick: TickRow) -> ScheduledRun:
        job = None if tick.job_id is None else self._jobs.get(tick.job_id)
        return ScheduledRun(
            schedule=tick.schedule,
            nominal_at=tick.nominal_at,
            status=tick.status,
            due_at=tick.due_at,
            decided_at=tick.decided_at,
            reason=tick.reason,
            job_id=tick.job_id,
            fired_at=tick.fired_at,
            state=None if job is None else job.state,
            attempt=None if job is None else job.attempt,
            started_at=None if job is None else job.started_at,
            finished_at=None if job is None else job.finished_at,
        )

    async def keep_declarations(self, rows: Sequence[DeclarationRow]) -> None:
        for row in rows:
            self._declarations.setdefault(row.key, row)

    async def declarations(
        self, names: Collection[str], job_types: Collection[str] = ()
    ) -> list[DeclarationRow]:
        found = (row for row in self._declarations.values() if row.name in names or row.job_type in job_types)
        return sorted(found, key=lambda row: (row.name, row.declared_at, row.definition_hash))

    async def replan_schedules(self, zone_version: str, now: datetime) -> None:
        for row in list(self._schedules.values()):
            if row.zone_version != zone_version and row.wake_at is not None and row.wake_at > now:
                self._hold(replace(row, wake_at=now))

    # -- expectations and old ticks -----------------------------------------------------------------------

    async def claim_watches(self, now: datetime, until: datetime, limit: int) -> list[WatchedSchedule]:
        due = sorted((row.check_at, row.name) for row in self._watches.values() if row.check_at <= now)
        claimed = [replace(self._watches[name], check_at=until) for _, name in due[:limit]]
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
        since = row.last_success_tick
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
            if held is None or row.last_success_tick is None:
                continue
            if held.last_success_tick is None or held.last_success_tick < row.last_success_tick:
                self._watches[row.name] = replace(
                    held, last_success_tick=row.last_success_tick, last_success_at=row.last_success_at
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

    async def old_ticks(self, after: str, before: datetime, newest: int, limit: int) -> OldTicks:
        names = self._ticks.schedules(after, EXAMINED_SCHEDULES)
        ticks = [tick for name in names for tick in self._old(name, before, newest)[:limit]]
        return page_of_old_ticks(after, names, ticks, limit)

    async def delete_ticks(self, keys: Collection[tuple[str, datetime]]) -> int:
        old = [
            tick
            for tick in map(self._ticks.get, keys)
            if tick is not None and tick.status is not TickStatus.WAITING and tick.wake_at is None
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
            if tick.nominal_at < before and tick.status is not TickStatus.WAITING and tick.wake_at is None
        ]


def _is_late(row: ScheduleRow, before: datetime) -> bool:
    return any(moment is not None and moment < before for moment in (row.wake_at, row.next_at))


def _is_listed(row: ScheduleRow, which: ScheduleFilter) -> bool:
    definition = row.definition
    return (
        (which.text is None or which.text in row.name.lower())
        and which.owner in (None, definition.owner)
        and which.job_type in (None, definition.job_type)
        and which.paused in (None, row.paused)
        and (which.due_before is None or _is_late(row, which.due_before))
        and (not which.sleeping or (row.wake_at is None and row.next_at is None))
    )
