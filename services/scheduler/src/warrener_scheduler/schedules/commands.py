"""Carry out schedule commands: put, pause, resume, remove, trigger and backfill. A repeat changes nothing.

A backfill goes batch by batch: ticks stored → the rest requested as a new command → the command acknowledged.
A crash in between brings the same batch again, which then finds its ticks stored.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

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
from warrener_contracts.messages import Message, build_message
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.decisions.backfill import batch_times, plan_batch, refusal_reason
from warrener_scheduler.messages import SOURCE, schedule_rejection
from warrener_scheduler.schedules.writer import PutRequest, ScheduleWriter
from warrener_scheduler.template_variables import Tick, tick_variables, uses_last_success
from warrener_scheduler.tick_messages import request_text
from warrener_scheduler.triggers.bindings import TriggerBindings
from warrener_store import Store
from warrener_store.schedules.rows import ScheduleRow, TickRow

_log = get_logger("schedules")

ScheduleEvent = (
    SchedulePut
    | SchedulePauseRequested
    | ScheduleResumeRequested
    | ScheduleRemoveRequested
    | ScheduleTriggerRequested
    | ScheduleBackfillRequested
)


@dataclass(frozen=True, slots=True)
class ScheduleCommand:
    """A command and the message that it was read from, which is parked if the command is rejected."""

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

    async def carry_out(self, commands: Sequence[ScheduleCommand]) -> list[Message]:
        """Carry out commands in their order, those of one kind together; returns the rejections."""
        messages: list[Message] = []
        for kind, some in groupby(commands, key=lambda command: type(command.event)):
            messages += await self._handle_group(kind, list(some))
        if commands:
            self._on_change()
            _log.info(
                "Schedule commands were carried out.",
                action="schedules.commands_applied",
                events=len(commands),
            )
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
            await self._bindings.sync()
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
        # First, so that no resumed schedule has failures that still count.
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
                success = await self._last_success(row)
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
                    messages += await self._backfill_batch(command.event, row)
                except (ValueError, ArithmeticError) as error:
                    messages += self._refuse(command, str(error))
        return messages

    async def _backfill_batch(self, event: ScheduleBackfillRequested, row: ScheduleRow) -> list[Message]:
        """Store the ticks of the next batch; returns the command for the rest. Raises ValueError."""
        data, now = event.data, self._clock.now()
        if why := refusal_reason(row, data, now):
            raise ValueError(why)
        times = batch_times(row, data, now)
        if not times:
            return []
        existing = await self._schedules.ticks_between(row.name, times[0], times[-1])
        success = await self._last_success(row)
        batch = plan_batch(
            row, data, times, {tick.nominal_at: tick for tick in existing}, now, last_success=success
        )
        stored = await self._schedules.backfill_ticks(batch.ticks)
        _log.info(
            "Past ticks were requested.",
            action="backfill.requested",
            schedule=row.name,
            requested=len(stored),
            passed_over=batch.passed_over,
            more=batch.rest is not None,
        )
        if batch.rest is None:
            return []
        again = event.model_copy(
            update={
                "id": str(uuid5(NAMESPACE_OID, f"{event.id}\n{batch.rest.start.isoformat()}")),
                "source": SOURCE,
                "time": now,
                "data": batch.rest,
            }
        )
        return [build_message(again)]

    async def _last_success(self, row: ScheduleRow) -> datetime | None:
        return await self._schedules.last_success(row.name) if uses_last_success(row.definition) else None

    def _refuse(self, command: ScheduleCommand, detail: str) -> list[Message]:
        _log.warning("A schedule command was rejected.", action="schedules.rejected", detail=detail)
        return schedule_rejection(command.event, command.received, detail, self._clock.now())


def _unknown_schedule(command: ScheduleCommand) -> str:
    return f"expected the name of a schedule, got {command.event.data.name!r}: put it first"


def _sent_at(event: Event[Any], now: datetime) -> datetime:
    """Return the time of an event, which orders it among others; none is from the future."""
    return min(event.time or now, now)


def _triggered_tick(
    row: ScheduleRow, event: ScheduleEvent, now: datetime, last_success: datetime | None
) -> TickRow:
    """Make a tick beside those of the rule; the next run of the ticker publishes its request."""
    sent_at, job_id = _sent_at(event, now), job_id_of(event.source, event.id)
    tick = Tick(sent_at, run=row.runs, previous_at=row.last_nominal_at, previous_success_at=last_success)
    return TickRow(
        schedule=row.name,
        nominal_at=_trigger_key(sent_at, job_id),
        status=TickStatus.TRIGGERED,
        due_at=sent_at,
        decided_at=now,
        reason=event.data.reason if isinstance(event, ScheduleTriggerRequested) else "",
        job_id=job_id,
        wake_at=now,
        request=request_text(row.definition, job_id, now, names=tick_variables(row.definition, tick)),
    )


def _trigger_key(sent_at: datetime, job_id: UUID) -> datetime:
    """Return the key of a trigger in the tick history.

    Some requesters send whole seconds, where ticks of the rule and other triggers of that second are: of two
    ticks under one key one would be lost.
    """
    return sent_at if sent_at.microsecond else sent_at + timedelta(microseconds=1 + job_id.int % 999_999)
