"""Expectations as the values of columns, and back."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from warrener_contracts.states import JobState
from warrener_store.records.form import Form
from warrener_store.schedules.watches import RunRow, WatchRow

WATCH_COLUMNS = ("name", "pause_after", "success_within", "since", "look_at", "success_tick", "succeeded_at")
EXPECTED = 5  # the columns that are put; the others are how far it has come


def watch_out(row: WatchRow, form: Form) -> tuple[Any, ...]:
    """The values of the first EXPECTED columns."""
    within = row.success_within
    return (
        row.name,
        row.pause_after,
        None if within is None else within.total_seconds(),
        form.moment_out(row.since),
        form.moment_out(row.look_at),
    )


def watch_in(values: Sequence[Any], form: Form) -> WatchRow:
    """The row whose WATCH_COLUMNS have these values."""
    within = values[2]
    return WatchRow(
        name=values[0],
        pause_after=values[1],
        success_within=None if within is None else timedelta(seconds=within),
        since=form.moment_in(values[3]),
        look_at=form.moment_in(values[4]),
        success_tick=form.moment_in(values[5]),
        succeeded_at=form.moment_in(values[6]),
    )


def run_in(values: Sequence[Any], form: Form) -> RunRow:
    """A tick and its job's state and end."""
    state = values[3]
    return RunRow(
        nominal_at=form.moment_in(values[0]),
        decided_at=form.moment_in(values[1]),
        fired_at=form.moment_in(values[2]),
        state=None if state is None else JobState(state),
        finished_at=form.moment_in(values[4]),
    )
