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
from warrener_scheduler import replies
from warrener_scheduler.schedules.backfill_runner import BackfillRunner
from warrener_scheduler.schedules.template_variables import Tick, tick_variables, uses_last_success
from warrener_scheduler.schedules.tick_messages import request_text
from warrener_scheduler.schedules.writer import PutRequest, ScheduleWriter
from warrener_scheduler.triggers.bindings import TriggerBindings
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
class ScheduleCommand:
    """What is asked of a schedule, and what it was read from: that is parked should it be rejected."""

    event: ScheduleEvent
    received: DecodedEvent


class ScheduleCommandHandler:
    """Carries out schedule commands; calls `on_change` when there may be something new to do."""

    def __init__(
        self,
        schedules: Store,
        clock: Clock,
        on_change: Callable[[], None],
        *,
        bindings: TriggerBindings,
        writer: ScheduleWriter,
    ) -> None:
        self._schedules = schedules
        self._bindings = bindings
        self._writer = writer
        self._clock = clock
        self._on_change = on_change
        self._backfill_runner = BackfillRunner(schedules, clock)

    async def carry_out(self, commands: Sequence[ScheduleCommand]) -> list[Message]:
        """In their order, those of one kind together. Returns the answers to what cannot be kept."""
        messages: list[Message] = []
        for kind, some in groupby(commands, key=lambda command: type(command.event)):
            messages += await self._handle_group(kind, list(some))
        if commands:
            self._on_change()
            _log.info("Schedules were asked for.", action="schedules.kept", events=len(commands))
        return messages

    async def _handle_group(self, kind: type[Event[Any]], commands: list[ScheduleCommand]) -> list[Message]:
        names = {command.event.data.name for command in commands}
        if kind is SchedulePut:
            return await self._put(commands)
        if kind is ScheduleTriggerRequested:
            return await self._trigger(commands)
        if kind is ScheduleBackfillRequested:
            return await self._backfill(commands)
        if kind is ScheduleRemoveRequested:
            await self._schedules.remove_schedules(names, self._clock.now())
            await self._bindings.drop_schedules(names)
        elif kind is SchedulePauseRequested:
            await self._pause(commands)
        else:
            await self._resume(names)
        return []

    async def _put(self, commands: Sequence[ScheduleCommand]) -> list[Message]:
        now = self._clock.now()
        puts = [
            PutRequest(command.event.data, _sent_at(command.event, now))
            for command in commands
            if isinstance(command.event, SchedulePut)
        ]
        refusals = await self._writer.refusals(puts)
        await self._writer.save([put for put, why in zip(puts, refusals, strict=True) if why is None])
        return [
            message
            for command, why in zip(commands, refusals, strict=True)
            if why is not None
            for message in self._refuse(command, why)
        ]

    async def _pause(self, commands: Sequence[ScheduleCommand]) -> None:
        reasons = {
            command.event.data.name: command.event.data.reason
            for command in commands
            if isinstance(command.event, SchedulePauseRequested)
        }
        for why in set(reasons.values()):
            names = {name for name, reason in reasons.items() if reason == why}
            await self._schedules.pause_schedules(names, paused=True, why=why)

    async def _resume(self, names: Collection[str]) -> None:
        # First, so that nobody sees one that is resumed, and failures that still count.
        await self._schedules.restart_watches(names, self._clock.now())
        await self._schedules.pause_schedules(names, paused=False)

    async def _trigger(self, commands: Sequence[ScheduleCommand]) -> list[Message]:
        now = self._clock.now()
        known = await self._schedules.schedules({command.event.data.name for command in commands})
        ticks, messages = list[TickRow](), list[Message]()
        for command in commands:
            row = known.get(command.event.data.name)
            if row is None:
                messages += self._refuse(command, _unknown_schedule(command))
            else:
                success = (
                    await self._schedules.last_success(row.name) if uses_last_success(row.asked) else None
                )
                try:
                    ticks.append(_triggered_tick(row, command.event, now, success))
                except Exception as error:  # noqa: BLE001 - one schedule must not stop the others
                    _log.exception("A schedule could not be triggered: a bug.", action="schedules.bug")
                    messages += self._refuse(command, f"the scheduler failed at it: {error!r}")
        await self._schedules.add_ticks(ticks)
        return messages

    async def _backfill(self, commands: Sequence[ScheduleCommand]) -> list[Message]:
        known = await self._schedules.schedules({command.event.data.name for command in commands})
        messages = list[Message]()
        for command in commands:
            row = known.get(command.event.data.name)
            if row is None:
                messages += self._refuse(command, _unknown_schedule(command))
            elif isinstance(command.event, ScheduleBackfillRequested):
                try:
                    messages += await self._backfill_runner.carry_out(command.event, row)
                except (ValueError, ArithmeticError) as error:
                    messages += self._refuse(command, str(error))
        return messages

    def _refuse(self, command: ScheduleCommand, detail: str) -> list[Message]:
        _log.warning("A request about a schedule was rejected.", action="schedules.rejected", detail=detail)
        return replies.schedule_rejection(command.event, command.received, detail, self._clock.now())


def _unknown_schedule(command: ScheduleCommand) -> str:
    return f"expected the name of a schedule, got {command.event.data.name!r}: put it first"


def _sent_at(event: Event[Any], now: datetime) -> datetime:
    """Its own time orders it among others, but none is from the future."""
    return min(event.time or now, now)


def _triggered_tick(
    row: ScheduleRow, event: ScheduleEvent, now: datetime, last_success: datetime | None
) -> TickRow:
    """A tick beside those of the rule; published by the next look at the ledger."""
    sent_at, job_id = _sent_at(event, now), job_id_of(event.source, event.id)
    tick = Tick(sent_at, run=row.runs, previous_at=row.last_at, previous_success_at=last_success)
    return TickRow(
        schedule=row.name,
        nominal_at=_trigger_key(sent_at, job_id),
        fate=TickStatus.TRIGGERED,
        due_at=sent_at,
        decided_at=now,
        reason=event.data.reason if isinstance(event, ScheduleTriggerRequested) else "",
        job_id=job_id,
        wake_at=now,
        request=request_text(row.asked, job_id, now, names=tick_variables(row.asked, tick)),
    )


def _trigger_key(sent_at: datetime, job_id: UUID) -> datetime:
    """The key of a trigger in the ledger. Some askers tell whole seconds: there stand the ticks of the rule
    and other triggers of that second, and of two under one key one would be lost."""
    return sent_at if sent_at.microsecond else sent_at + timedelta(microseconds=1 + job_id.int % 999_999)
