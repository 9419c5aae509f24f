"""Schedules and ticks as the values of columns, and back."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from warrener_contracts.events import SchedulePutData, TickStatus
from warrener_contracts.states import JobState
from warrener_store.encoding import escape, unescape
from warrener_store.records.form import Form, text_in, text_out
from warrener_store.schedules.rows import DueSchedule, ScheduleRow, TickRow

SCHEDULE_COLUMNS = (
    "name",
    "asked",
    "put_at",
    "zone_version",
    "paused",
    "next_at",
    "wake_at",
    "last_at",
    "runs",
    "waiting",
    "last_job_id",
    "last_fired_at",
    "paused_why",
)
TICK_COLUMNS = (
    "schedule",
    "nominal_at",
    "fate",
    "due_at",
    "decided_at",
    "reason",
    "job_id",
    "fired_at",
    "wake_at",
    "request",
)


def schedule_out(row: ScheduleRow, form: Form) -> tuple[Any, ...]:
    """The values of SCHEDULE_COLUMNS."""
    return (
        row.name,
        asked_out(row.asked),
        form.moment_out(row.put_at),
        row.zone_version,
        *progress_out(row, form),
        escape(row.paused_why),
    )


def progress_out(row: ScheduleRow, form: Form) -> tuple[Any, ...]:
    """The values of the columns behind `zone_version`, but for why it is paused."""
    return (
        row.paused,
        form.moment_out(row.next_at),
        form.moment_out(row.wake_at),
        form.moment_out(row.last_at),
        row.runs,
        row.waiting,
        form.id_out(row.last_job_id),
        form.moment_out(row.last_fired_at),
    )


def schedule_in(values: Sequence[Any], form: Form) -> ScheduleRow:
    """The row whose SCHEDULE_COLUMNS have these values."""
    return ScheduleRow(
        asked=asked_in(values[1]),
        put_at=form.moment_in(values[2]),
        zone_version=values[3],
        paused=bool(values[4]),
        next_at=form.moment_in(values[5]),
        wake_at=form.moment_in(values[6]),
        last_at=form.moment_in(values[7]),
        runs=values[8],
        waiting=values[9],
        last_job_id=form.id_in(values[10]),
        last_fired_at=form.moment_in(values[11]),
        paused_why=unescape(values[12]),
    )


def due_in(values: Sequence[Any], form: Form) -> DueSchedule:
    """The same with what stands behind them in `due_schedules`."""
    state, waiting, success = values[len(SCHEDULE_COLUMNS) :]
    last_job = None if state is None else JobState(state)
    return DueSchedule(schedule_in(values, form), last_job, form.moment_in(waiting), form.moment_in(success))


def tick_out(row: TickRow, form: Form) -> tuple[Any, ...]:
    """The values of TICK_COLUMNS."""
    return (
        row.schedule,
        form.moment_out(row.nominal_at),
        row.fate.value,
        form.moment_out(row.due_at),
        form.moment_out(row.decided_at),
        escape(row.reason),
        form.id_out(row.job_id),
        form.moment_out(row.fired_at),
        form.moment_out(row.wake_at),
        text_out(row.request),
    )


def tick_in(values: Sequence[Any], form: Form) -> TickRow:
    """The row whose TICK_COLUMNS have these values."""
    return TickRow(
        schedule=values[0],
        nominal_at=form.moment_in(values[1]),
        fate=TickStatus(values[2]),
        due_at=form.moment_in(values[3]),
        decided_at=form.moment_in(values[4]),
        reason=unescape(values[5]),
        job_id=form.id_in(values[6]),
        fired_at=form.moment_in(values[7]),
        wake_at=form.moment_in(values[8]),
        request=text_in(values[9]),
    )


def asked_out(asked: SchedulePutData) -> str:
    """What was asked for as JSON; the same for what says the same."""
    return escape(asked.model_dump_json(exclude_none=True, exclude={"reply_to"}))


@lru_cache(maxsize=20_000)
def asked_in(text: str) -> SchedulePutData:
    """What `asked_out` was given. It seldom changes, and is asked for at every tick."""
    return SchedulePutData.model_validate_json(unescape(text))
