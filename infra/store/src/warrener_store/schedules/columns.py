"""The columns of schedules, ticks, watches and arrivals."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from warrener_contracts.state_machine import JobState
from warrener_store.encoding import escape, unescape
from warrener_store.mapping import ColumnCodec, ColumnKind, RowMapper, qualify
from warrener_store.schedules import rows

if TYPE_CHECKING:
    from warrener_contracts.events import SchedulePutData


def encode_definition(definition: "SchedulePutData") -> str:
    """Write a definition as JSON; equal definitions give equal texts."""
    return escape(definition.model_dump_json(exclude_none=True, exclude={"reply_to"}))


@lru_cache(maxsize=20_000)
def decode_definition(text: str) -> "SchedulePutData":
    """Reverse `encode_definition`. A definition seldom changes, and each tick reads it."""
    from warrener_contracts.events import SchedulePutData  # noqa: PLC0415 - large; most commands read no schedule

    return SchedulePutData.model_validate_json(unescape(text))


SCHEDULES = RowMapper(
    rows.ScheduleRow, kinds={"definition": ColumnKind(encode_definition, decode_definition)}
)
"""All columns but the name, which is part of the definition."""
SCHEDULE_COLUMNS = ("name", *SCHEDULES.columns)
PROGRESS = RowMapper(
    rows.ScheduleRow, "zone_version next_at wake_at last_nominal_at runs waiting last_job_id last_fired_at"
)
"""The columns that a decision writes."""
TICKS = RowMapper(rows.TickRow)
DECLARATIONS = RowMapper(rows.DeclarationRow)
WATCHES = RowMapper(rows.WatchRow)
EXPECTATIONS = RowMapper(rows.WatchRow, ("name", "pause_after", "success_within", "since", "check_at"))
"""The columns of a watch that its owner sets; the others are its progress."""
SUCCESSES = RowMapper(rows.WatchRow, ("name", "last_success_tick", "last_success_at"))
RUNS = RowMapper(rows.RunRow)
SCHEDULED_RUNS = RowMapper(rows.ScheduledRun)
ARRIVALS = RowMapper(rows.ArrivalRow)
ARRIVAL_OUTCOMES = RowMapper(rows.ArrivalOutcome)
WORDS = {
    "schedule": qualify("schedule", SCHEDULE_COLUMNS),
    "schedule_columns": ", ".join(SCHEDULE_COLUMNS),
    "tick": qualify("tick", TICKS.columns),
    "tick_columns": ", ".join(TICKS.columns),
    "watch": qualify("watch", WATCHES.columns),
    "claimed": qualify("claimed", WATCHES.columns),
    "arrival": qualify("arrival", ARRIVALS.columns),
    "newest": str(rows.MAX_RUNS_EXAMINED),
}


def schedule_to_row(row: rows.ScheduleRow, codec: ColumnCodec) -> tuple[Any, ...]:
    """The values of SCHEDULE_COLUMNS."""
    return (row.name, *SCHEDULES.to_row(row, codec))


def schedule_from_row(values: Sequence[Any], codec: ColumnCodec) -> rows.ScheduleRow:
    """The row whose SCHEDULE_COLUMNS have these values; more values behind them are ignored."""
    return SCHEDULES.from_row(values[1:], codec)


def due_from_row(values: Sequence[Any], codec: ColumnCodec) -> rows.DueSchedule:
    """The schedule of a row of the statement `due_schedules`."""
    state, waiting, success, _version = values[len(SCHEDULE_COLUMNS) :]
    last_job = None if state is None else JobState(state)
    return rows.DueSchedule(
        schedule_from_row(values, codec), last_job, codec.decode_moment(waiting), codec.decode_moment(success)
    )
