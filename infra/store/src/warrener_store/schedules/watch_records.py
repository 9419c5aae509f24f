"""Expectations as the values of columns, and back."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from warrener_contracts.state_machine import JobState
from warrener_store.records.codec import ColumnCodec
from warrener_store.schedules.watches import RunRow, WatchRow

WATCH_COLUMNS = ("name", "pause_after", "success_within", "since", "look_at", "success_tick", "succeeded_at")
EXPECTATION_WIDTH = 5  # the columns that are put; the others are how far it has come


def watch_to_row(row: WatchRow, codec: ColumnCodec) -> tuple[Any, ...]:
    """The values of the first EXPECTATION_WIDTH columns."""
    within = row.success_within
    return (
        row.name,
        row.pause_after,
        None if within is None else within.total_seconds(),
        codec.encode_moment(row.since),
        codec.encode_moment(row.look_at),
    )


def watch_from_row(values: Sequence[Any], codec: ColumnCodec) -> WatchRow:
    """The row whose WATCH_COLUMNS have these values."""
    within = values[2]
    return WatchRow(
        name=values[0],
        pause_after=values[1],
        success_within=None if within is None else timedelta(seconds=within),
        since=codec.decode_moment(values[3]),
        look_at=codec.decode_moment(values[4]),
        success_tick=codec.decode_moment(values[5]),
        succeeded_at=codec.decode_moment(values[6]),
    )


def run_from_row(values: Sequence[Any], codec: ColumnCodec) -> RunRow:
    """A tick and its job's state and end."""
    state = values[3]
    return RunRow(
        nominal_at=codec.decode_moment(values[0]),
        decided_at=codec.decode_moment(values[1]),
        fired_at=codec.decode_moment(values[2]),
        state=None if state is None else JobState(state),
        finished_at=codec.decode_moment(values[4]),
    )
