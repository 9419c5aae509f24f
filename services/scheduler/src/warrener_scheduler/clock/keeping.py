"""keeping: what is asked of schedules is kept; a repeat changes nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any
from uuid import UUID

from warrener_contracts.codec import Readable
from warrener_contracts.events import (
    Event,
    SchedulePauseRequested,
    SchedulePut,
    ScheduleRemoveRequested,
    ScheduleResumeRequested,
    ScheduleTriggerRequested,
    TickFate,
)
from warrener_contracts.identity import job_id_of
from warrener_contracts.letters import Letter
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler import answers
from warrener_scheduler.calendar.ticks import check
from warrener_scheduler.calendar.zone_database import database_version
from warrener_scheduler.clock.deciding import first_time
from warrener_scheduler.clock.requests import request_text
from warrener_store.schedules.port import Schedules
from warrener_store.schedules.rows import ScheduleRow, TickRow

ScheduleEvent = (
    SchedulePut
    | SchedulePauseRequested
    | ScheduleResumeRequested
    | ScheduleRemoveRequested
    | ScheduleTriggerRequested
)

_log = get_logger("schedules")


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of a schedule, and what it was read from: that is parked should it be rejected."""

    event: ScheduleEvent
    came: Readable


class Keeping:
    """The verb for what is asked of schedules; `changed` is called when there may be something new to do."""

    def __init__(self, schedules: Schedules, clock: Clock, changed: Callable[[], None]) -> None:
        self._schedules = schedules
        self._clock = clock
        self._changed = changed

    async def carry_out(self, wishes: Sequence[Wish]) -> list[Letter]:
        """In their order, those of one kind together. Returns the answers to what cannot be kept."""
        letters: list[Letter] = []
        for kind, some in groupby(wishes, key=lambda wish: type(wish.event)):
            letters += await self._some(kind, list(some))
        if wishes:
            self._changed()
            _log.info("Schedules were asked for.", action="schedules.kept", events=len(wishes))
        return letters

    async def _some(self, kind: type[Event[Any]], wishes: list[Wish]) -> list[Letter]:
        names = {wish.event.data.name for wish in wishes}
        if kind is SchedulePut:
            return await self._put(wishes)
        if kind is ScheduleTriggerRequested:
            return await self._trigger(wishes)
        if kind is ScheduleRemoveRequested:
            await self._schedules.remove_schedules(names)
        else:
            await self._schedules.pause_schedules(names, paused=kind is SchedulePauseRequested)
        return []

    async def _put(self, wishes: Sequence[Wish]) -> list[Letter]:
        rows, letters = list[ScheduleRow](), list[Letter]()
        for wish in wishes:
            if not isinstance(wish.event, SchedulePut):
                continue
            put_at = _told_at(wish.event, self._clock.now())
            try:
                check(wish.event.data, put_at)
            except ValueError as error:
                letters += self._refuse(wish, str(error))
                continue
            row = ScheduleRow(asked=wish.event.data, put_at=put_at, zone_version=database_version())
            rows.append(first_time(row))
        if rows:
            await self._schedules.put_schedules(rows)
        return letters

    async def _trigger(self, wishes: Sequence[Wish]) -> list[Letter]:
        now = self._clock.now()
        known = await self._schedules.schedules({wish.event.data.name for wish in wishes})
        ticks, letters = list[TickRow](), list[Letter]()
        for wish in wishes:
            row = known.get(wish.event.data.name)
            if row is None:
                detail = f"expected the name of a schedule, got {wish.event.data.name!r}: put it first"
                letters += self._refuse(wish, detail)
            else:
                ticks.append(_triggered(row, wish.event, now))
        await self._schedules.add_ticks(ticks)
        return letters

    def _refuse(self, wish: Wish, detail: str) -> list[Letter]:
        _log.warning("A request about a schedule was rejected.", action="schedules.rejected", detail=detail)
        return answers.schedule_rejection(wish.event, wish.came, detail, self._clock.now())


def _told_at(event: Event[Any], now: datetime) -> datetime:
    """Its own time orders it among others, but none is from the future."""
    return min(event.time or now, now)


def _triggered(row: ScheduleRow, event: ScheduleEvent, now: datetime) -> TickRow:
    """A tick beside those of the rule; published by the next look at the ledger."""
    told_at, job_id = _told_at(event, now), job_id_of(event.source, event.id)
    return TickRow(
        schedule=row.name,
        nominal_at=_between_ticks(told_at, job_id),
        fate=TickFate.TRIGGERED,
        due_at=told_at,
        decided_at=now,
        reason=event.data.reason if isinstance(event, ScheduleTriggerRequested) else "",
        job_id=job_id,
        wake_at=now,
        request=request_text(row.asked, job_id, now),
    )


def _between_ticks(told_at: datetime, job_id: UUID) -> datetime:
    """The key of a trigger in the ledger. Some askers tell whole seconds: there stand the ticks of the rule
    and other triggers of that second, and of two under one key one would be lost."""
    return told_at if told_at.microsecond else told_at + timedelta(microseconds=1 + job_id.int % 999_999)
