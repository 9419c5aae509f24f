"""keeping: what is asked of schedules is kept; a repeat changes nothing."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any
from uuid import UUID

from warrener_contracts.codec import DecodedEvent
from warrener_contracts.events import (
    Event,
    ScheduleBackfillRequested,
    SchedulePauseRequested,
    SchedulePut,
    ScheduleRemoveRequested,
    ScheduleResumeRequested,
    ScheduleTriggerRequested,
    TickStatus,
)
from warrener_contracts.identity import job_id_of
from warrener_contracts.messages import Message
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler import answers
from warrener_scheduler.clock.backfilling import Backfilling
from warrener_scheduler.clock.putting import Put, Putting
from warrener_scheduler.clock.requests import request_text
from warrener_scheduler.clock.tick_names import Tick, names_of, names_success
from warrener_scheduler.triggers.binding import Bindings
from warrener_store import Store
from warrener_store.schedules.rows import ScheduleRow, TickRow

ScheduleEvent = (
    SchedulePut
    | SchedulePauseRequested
    | ScheduleResumeRequested
    | ScheduleRemoveRequested
    | ScheduleTriggerRequested
    | ScheduleBackfillRequested
)

_log = get_logger("schedules")


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of a schedule, and what it was read from: that is parked should it be rejected."""

    event: ScheduleEvent
    came: DecodedEvent


class Keeping:
    """The verb for what is asked of schedules; `changed` is called when there may be something new to do."""

    def __init__(
        self,
        schedules: Store,
        clock: Clock,
        changed: Callable[[], None],
        *,
        bindings: Bindings,
        putting: Putting,
    ) -> None:
        self._schedules = schedules
        self._bindings = bindings
        self._putting = putting
        self._clock = clock
        self._changed = changed
        self._backfilling = Backfilling(schedules, clock)

    async def carry_out(self, wishes: Sequence[Wish]) -> list[Message]:
        """In their order, those of one kind together. Returns the answers to what cannot be kept."""
        letters: list[Message] = []
        for kind, some in groupby(wishes, key=lambda wish: type(wish.event)):
            letters += await self._some(kind, list(some))
        if wishes:
            self._changed()
            _log.info("Schedules were asked for.", action="schedules.kept", events=len(wishes))
        return letters

    async def _some(self, kind: type[Event[Any]], wishes: list[Wish]) -> list[Message]:
        names = {wish.event.data.name for wish in wishes}
        if kind is SchedulePut:
            return await self._put(wishes)
        if kind is ScheduleTriggerRequested:
            return await self._trigger(wishes)
        if kind is ScheduleBackfillRequested:
            return await self._backfill(wishes)
        if kind is ScheduleRemoveRequested:
            await self._schedules.remove_schedules(names, self._clock.now())
            await self._bindings.removed(names)
        elif kind is SchedulePauseRequested:
            await self._pause(wishes)
        else:
            await self._resume(names)
        return []

    async def _put(self, wishes: Sequence[Wish]) -> list[Message]:
        now = self._clock.now()
        puts = [
            Put(wish.event.data, _told_at(wish.event, now))
            for wish in wishes
            if isinstance(wish.event, SchedulePut)
        ]
        refusals = await self._putting.refusals(puts)
        await self._putting.keep([put for put, why in zip(puts, refusals, strict=True) if why is None])
        return [
            letter
            for wish, why in zip(wishes, refusals, strict=True)
            if why is not None
            for letter in self._refuse(wish, why)
        ]

    async def _pause(self, wishes: Sequence[Wish]) -> None:
        reasons = {
            wish.event.data.name: wish.event.data.reason
            for wish in wishes
            if isinstance(wish.event, SchedulePauseRequested)
        }
        for why in set(reasons.values()):
            names = {name for name, reason in reasons.items() if reason == why}
            await self._schedules.pause_schedules(names, paused=True, why=why)

    async def _resume(self, names: Collection[str]) -> None:
        # First, so that nobody sees one that is resumed, and failures that still count.
        await self._schedules.restart_watches(names, self._clock.now())
        await self._schedules.pause_schedules(names, paused=False)

    async def _trigger(self, wishes: Sequence[Wish]) -> list[Message]:
        now = self._clock.now()
        known = await self._schedules.schedules({wish.event.data.name for wish in wishes})
        ticks, letters = list[TickRow](), list[Message]()
        for wish in wishes:
            row = known.get(wish.event.data.name)
            if row is None:
                letters += self._refuse(wish, _unknown(wish))
            else:
                success = await self._schedules.last_success(row.name) if names_success(row.asked) else None
                try:
                    ticks.append(_triggered(row, wish.event, now, success))
                except Exception as error:  # noqa: BLE001 - one schedule must not stop the others
                    _log.exception("A schedule could not be triggered: a bug.", action="schedules.bug")
                    letters += self._refuse(wish, f"the scheduler failed at it: {error!r}")
        await self._schedules.add_ticks(ticks)
        return letters

    async def _backfill(self, wishes: Sequence[Wish]) -> list[Message]:
        known = await self._schedules.schedules({wish.event.data.name for wish in wishes})
        letters = list[Message]()
        for wish in wishes:
            row = known.get(wish.event.data.name)
            if row is None:
                letters += self._refuse(wish, _unknown(wish))
            elif isinstance(wish.event, ScheduleBackfillRequested):
                try:
                    letters += await self._backfilling.carry_out(wish.event, row)
                except (ValueError, ArithmeticError) as error:
                    letters += self._refuse(wish, str(error))
        return letters

    def _refuse(self, wish: Wish, detail: str) -> list[Message]:
        _log.warning("A request about a schedule was rejected.", action="schedules.rejected", detail=detail)
        return answers.schedule_rejection(wish.event, wish.came, detail, self._clock.now())


def _unknown(wish: Wish) -> str:
    return f"expected the name of a schedule, got {wish.event.data.name!r}: put it first"


def _told_at(event: Event[Any], now: datetime) -> datetime:
    """Its own time orders it among others, but none is from the future."""
    return min(event.time or now, now)


def _triggered(
    row: ScheduleRow, event: ScheduleEvent, now: datetime, last_success: datetime | None
) -> TickRow:
    """A tick beside those of the rule; published by the next look at the ledger."""
    told_at, job_id = _told_at(event, now), job_id_of(event.source, event.id)
    tick = Tick(told_at, run=row.runs, previous_at=row.last_at, previous_success_at=last_success)
    return TickRow(
        schedule=row.name,
        nominal_at=_between_ticks(told_at, job_id),
        fate=TickStatus.TRIGGERED,
        due_at=told_at,
        decided_at=now,
        reason=event.data.reason if isinstance(event, ScheduleTriggerRequested) else "",
        job_id=job_id,
        wake_at=now,
        request=request_text(row.asked, job_id, now, names=names_of(row.asked, tick)),
    )


def _between_ticks(told_at: datetime, job_id: UUID) -> datetime:
    """The key of a trigger in the ledger. Some askers tell whole seconds: there stand the ticks of the rule
    and other triggers of that second, and of two under one key one would be lost."""
    return told_at if told_at.microsecond else told_at + timedelta(microseconds=1 + job_id.int % 999_999)
