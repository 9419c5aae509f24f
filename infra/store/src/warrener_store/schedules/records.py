"""Schedules and ticks as the values of columns, and back."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from warrener_contracts.events import SchedulePutData, TickStatus
from warrener_contracts.state_machine import JobState
from warrener_store.encoding import escape, unescape
from warrener_store.records.codec import ColumnCodec, decode_text, encode_text
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


def schedule_to_row(row: ScheduleRow, codec: ColumnCodec) -> tuple[Any, ...]:
    """The values of SCHEDULE_COLUMNS."""
    return (
        row.name,
        encode_definition(row.asked),
        codec.encode_moment(row.put_at),
        row.zone_version,
        *progress_to_row(row, codec),
        escape(row.paused_why),
    )


def progress_to_row(row: ScheduleRow, codec: ColumnCodec) -> tuple[Any, ...]:
    """The values of the columns behind `zone_version`, but for why it is paused."""
    return (
        row.paused,
        codec.encode_moment(row.next_at),
        codec.encode_moment(row.wake_at),
        codec.encode_moment(row.last_at),
        row.runs,
        row.waiting,
        codec.encode_id(row.last_job_id),
        codec.encode_moment(row.last_fired_at),
    )


def schedule_from_row(values: Sequence[Any], codec: ColumnCodec) -> ScheduleRow:
    """The row whose SCHEDULE_COLUMNS have these values."""
    return ScheduleRow(
        asked=decode_definition(values[1]),
        put_at=codec.decode_moment(values[2]),
        zone_version=values[3],
        paused=bool(values[4]),
        next_at=codec.decode_moment(values[5]),
        wake_at=codec.decode_moment(values[6]),
        last_at=codec.decode_moment(values[7]),
        runs=values[8],
        waiting=values[9],
        last_job_id=codec.decode_id(values[10]),
        last_fired_at=codec.decode_moment(values[11]),
        paused_why=unescape(values[12]),
    )


def due_from_row(values: Sequence[Any], codec: ColumnCodec) -> DueSchedule:
    """The same with what stands behind them in `due_schedules`."""
    state, waiting, success = values[len(SCHEDULE_COLUMNS) :]
    last_job = None if state is None else JobState(state)
    return DueSchedule(
        schedule_from_row(values, codec), last_job, codec.decode_moment(waiting), codec.decode_moment(success)
    )


def tick_to_row(row: TickRow, codec: ColumnCodec) -> tuple[Any, ...]:
    """The values of TICK_COLUMNS."""
    return (
        row.schedule,
        codec.encode_moment(row.nominal_at),
        row.fate.value,
        codec.encode_moment(row.due_at),
        codec.encode_moment(row.decided_at),
        escape(row.reason),
        codec.encode_id(row.job_id),
        codec.encode_moment(row.fired_at),
        codec.encode_moment(row.wake_at),
        encode_text(row.request),
    )


def tick_from_row(values: Sequence[Any], codec: ColumnCodec) -> TickRow:
    """The row whose TICK_COLUMNS have these values."""
    return TickRow(
        schedule=values[0],
        nominal_at=codec.decode_moment(values[1]),
        fate=TickStatus(values[2]),
        due_at=codec.decode_moment(values[3]),
        decided_at=codec.decode_moment(values[4]),
        reason=unescape(values[5]),
        job_id=codec.decode_id(values[6]),
        fired_at=codec.decode_moment(values[7]),
        wake_at=codec.decode_moment(values[8]),
        request=decode_text(values[9]),
    )


def encode_definition(definition: SchedulePutData) -> str:
    """What was asked for as JSON; the same for what says the same."""
    return escape(definition.model_dump_json(exclude_none=True, exclude={"reply_to"}))


@lru_cache(maxsize=20_000)
def decode_definition(text: str) -> SchedulePutData:
    """What `encode_definition` was given. It seldom changes, and is asked for at every tick."""
    return SchedulePutData.model_validate_json(unescape(text))
