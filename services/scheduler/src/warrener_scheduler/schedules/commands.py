"""Carry out schedule commands: put, pause, resume, remove, trigger and backfill. A repeat changes nothing.

A backfill goes batch by batch: ticks stored → the rest requested as a new command → the command acknowledged.
A crash in between brings the same batch again, which then finds its ticks stored.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from warrener_calendar.template_variables import Tick, tick_variables, uses_last_success
from warrener_contracts import events
from warrener_contracts.codec import DecodedEvent
from warrener_contracts.commands import CommandResult, ReceivedCommand
from warrener_contracts.identity import job_id_of
from warrener_contracts.messages import Message, build_message
from warrener_contracts.triggers import TriggerRule
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.decisions.admission import CachedJobType, find_argument_problem
from warrener_scheduler.decisions.backfill import batch_times, plan_batch, refusal_reason
from warrener_scheduler.messages import SOURCE, schedule_rejection
from warrener_scheduler.ports import UnknownQueues
from warrener_scheduler.schedules.writer import PutRequest, ScheduleWriter
from warrener_scheduler.tick_messages import request_text, sample_arguments
from warrener_scheduler.triggers.bindings import TriggerBindings
from warrener_store import Store
from warrener_store.schedules.rows import ScheduleRow, TickRow

_log = get_logger("schedules")

ScheduleEvent = (
    events.SchedulePut
    | events.SchedulePauseRequested
    | events.ScheduleResumeRequested
    | events.ScheduleRemoveRequested
    | events.ScheduleTriggerRequested
    | events.ScheduleBackfillRequested
)


class ScheduleCommandHandler:
    """Carries out schedule commands, each by a method; calls `on_change` when there may be something new to
    do. A method returns the refusal of a command, or the messages that follow: the rest of a backfill."""

    def __init__(
        self,
        schedules: Store,
        clock: Clock,
        on_change: Callable[[], None],
        *,
        bindings: TriggerBindings,
        writer: ScheduleWriter,
        find_types: Callable[[AbstractSet[str]], Awaitable[Mapping[str, CachedJobType]]],
        find_unknown_queues: Callable[[AbstractSet[str | None]], Awaitable[UnknownQueues]],
        read_secret: Callable[[], Awaitable[str]],
    ) -> None:
        self._schedules, self._clock, self._on_change = schedules, clock, on_change
        self._bindings, self._writer, self._find_types = bindings, writer, find_types
        self._find_unknown_queues, self._read_secret = find_unknown_queues, read_secret

    async def put(self, commands: Sequence[ReceivedCommand[events.SchedulePut]]) -> list[CommandResult]:
        """Create or replace schedules, in one transaction; the last of a name counts."""
        now = self._clock.now()
        puts = [PutRequest(_stored(command.event.data), _sent_at(command.event, now)) for command in commands]
        refusals = await self._writer.refusals(puts)
        for place, command in enumerate(commands):
            if refusals[place] is None and command.event.data.checked:
                refusals[place] = await self._find_job_problem(command.event.data)
        saved = [put for put, why in zip(puts, refusals, strict=True) if why is None]
        await self._writer.save(saved)
        if saved:
            self._on_change()
            _log.info("Schedules were put.", action="schedules.put", schedules=len(saved))
        return [
            CommandResult() if why is None else self._refuse(command.event, command.received, why)
            for command, why in zip(commands, refusals, strict=True)
        ]

    async def pause(self, event: events.SchedulePauseRequested, received: DecodedEvent) -> CommandResult:
        if await self._find(event.data.name) is None:
            return _unknown(event)
        why, now = event.data.reason, self._clock.now()
        await self._schedules.pause_schedules({event.data.name}, now, paused=True, why=why)
        return self._carried_out(event)

    async def resume(self, event: events.ScheduleResumeRequested, received: DecodedEvent) -> CommandResult:
        if await self._find(event.data.name) is None:
            return _unknown(event)
        await self._schedules.pause_schedules({event.data.name}, self._clock.now(), paused=False)
        return self._carried_out(event)

    async def remove(self, event: events.ScheduleRemoveRequested, received: DecodedEvent) -> CommandResult:
        """Remove a schedule; its tick history stays."""
        if await self._find(event.data.name) is None:
            return _unknown(event)
        await self._schedules.remove_schedules({event.data.name}, self._clock.now())
        await self._bindings.sync()
        return self._carried_out(event)

    async def trigger(self, event: events.ScheduleTriggerRequested, received: DecodedEvent) -> CommandResult:
        """Add a tick; the next run of the ticker publishes its request."""
        row = await self._find(event.data.name)
        if row is None:
            return self._refuse(event, received, _unknown_schedule(event))
        success = await self._last_success(row)
        try:
            tick = _triggered_tick(row, event, self._clock.now(), success)
        except Exception as error:  # noqa: BLE001 - one schedule must not stop the others
            _log.exception("A schedule could not be triggered: a bug.", action="schedules.bug")
            return self._refuse(event, received, f"the scheduler failed at it: {error!r}")
        await self._schedules.add_ticks([tick])
        return self._carried_out(event)

    async def backfill(
        self, event: events.ScheduleBackfillRequested, received: DecodedEvent
    ) -> CommandResult:
        """Request past ticks, one batch of them; the rest is a command of its own."""
        row = await self._find(event.data.name)
        if row is None:
            return self._refuse(event, received, _unknown_schedule(event))
        try:
            rest = await self._backfill_batch(event, row)
        except (ValueError, ArithmeticError) as error:
            return self._refuse(event, received, str(error))
        return self._carried_out(event, *rest)

    async def _find_job_problem(self, spec: events.SchedulePutData) -> str | None:
        """Return why the requests of a schedule would be rejected as of now; None if they would not be."""
        known = (await self._find_types({spec.job_type})).get(spec.job_type)
        if known is None:
            return (
                f"expected a job type that an agent has announced, got {spec.job_type!r}: "
                "start an agent for it, or put the schedule unchecked"
            )
        if unknown := await self._find_unknown_queues({spec.queue}):
            return unknown[spec.queue]
        if isinstance(spec.rule, TriggerRule):  # an event may add an argument
            return None
        problem = find_argument_problem(known, sample_arguments(spec, self._clock.now()))
        return None if problem is None else problem.public

    def _carried_out(self, event: ScheduleEvent, *following: Message) -> CommandResult:
        self._on_change()
        _log.info(
            "A schedule command was carried out.",
            action="schedules.command_applied",
            command=event.type,
            schedule=event.data.name,
        )
        return CommandResult(following)

    async def _find(self, name: str) -> ScheduleRow | None:
        return (await self._schedules.schedules({name})).get(name)

    async def _backfill_batch(
        self, event: events.ScheduleBackfillRequested, row: ScheduleRow
    ) -> list[Message]:
        """Store the ticks of the next batch; returns the command for the rest. Raises ValueError."""
        data, now = event.data, self._clock.now()
        if why := refusal_reason(row, data, now):
            raise ValueError(why)
        times = batch_times(row, data, now)
        if not times:
            return []
        existing = await self._schedules.ticks_of(row.name, None, begin=times[0], end=times[-1])
        success = await self._last_success(row)
        by_time = {tick.nominal_at: tick for tick in existing}
        secret = await self._read_secret()
        batch = plan_batch(row, data, times, by_time, now, secret=secret, last_success=success)
        stored = await self._schedules.add_ticks(batch.ticks)
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
        name = str(uuid5(NAMESPACE_OID, f"{event.id}\n{batch.rest.start.isoformat()}"))
        again = {"id": name, "source": SOURCE, "time": now, "data": batch.rest}
        return [build_message(event.model_copy(update=again))]

    async def _last_success(self, row: ScheduleRow) -> datetime | None:
        return await self._schedules.last_success(row.name) if uses_last_success(row.definition) else None

    def _refuse(self, event: ScheduleEvent, received: DecodedEvent, detail: str) -> CommandResult:
        _log.warning("A schedule command was rejected.", action="schedules.rejected", detail=detail)
        rejection = schedule_rejection(event, received, detail, self._clock.now())
        return CommandResult(rejection, refusal=detail, is_replied=True)


def _stored(data: events.SchedulePutData) -> events.SchedulePutData:
    """The definition without what concerns its put alone."""
    if data.reply_to is None and not data.checked:
        return data
    return data.model_copy(update={"reply_to": None, "checked": False})


def _unknown(event: ScheduleEvent) -> CommandResult:
    """Refuse without parking: the repeat of a removal names a schedule that is gone."""
    detail = _unknown_schedule(event)
    _log.warning("A schedule command was refused.", action="schedules.refused", detail=detail)
    return CommandResult(refusal=detail)


def _unknown_schedule(event: ScheduleEvent) -> str:
    return f"expected the name of a schedule, got {event.data.name!r}: put it first"


def _sent_at(event: events.Event[Any], now: datetime) -> datetime:
    """Return the time of an event, which orders it among others; none is from the future."""
    return min(event.time or now, now)


def _triggered_tick(
    row: ScheduleRow, event: events.ScheduleTriggerRequested, now: datetime, last_success: datetime | None
) -> TickRow:
    """Make a tick beside those of the rule; the next run of the ticker publishes its request."""
    sent_at, job_id = _sent_at(event, now), job_id_of(event.source, event.id)
    tick = Tick(sent_at, run=row.runs, previous_at=row.last_nominal_at, previous_success_at=last_success)
    return TickRow(
        schedule=row.name,
        nominal_at=_trigger_key(sent_at, job_id),
        status=events.TickStatus.TRIGGERED,
        due_at=sent_at,
        decided_at=now,
        reason=event.data.reason,
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
