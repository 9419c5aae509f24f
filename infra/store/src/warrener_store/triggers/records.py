"""Triggers and arrivals as the values of columns, and back."""

from collections.abc import Sequence
from typing import Any

from warrener_contracts.triggers import TriggerRule
from warrener_store.encoding import decode, encode, escape, unescape
from warrener_store.records.form import Form, text_in, text_out
from warrener_store.schedules.records import SCHEDULE_COLUMNS, schedule_in
from warrener_store.schedules.rows import DueSchedule
from warrener_store.triggers.rows import ArrivalRow, Settled, Trigger, TriggerRow

ARRIVAL_COLUMNS = ("schedule", "event_id", "told_at", "heard_at", "upstream", "nominal_at", "event")


def trigger_out(row: TriggerRow) -> tuple[str, str]:
    """Name and bindings."""
    return row.schedule, escape(encode([list(binding) for binding in row.bindings]))


def trigger_in(values: Sequence[Any], form: Form) -> Trigger:
    """The same with the columns of its schedule behind them, which are empty where there is none."""
    name, bindings, *schedule = values
    row = TriggerRow(name, tuple((exchange, key) for exchange, key in decode(unescape(bindings))))
    assert len(schedule) == len(SCHEDULE_COLUMNS)
    return Trigger(row, None if schedule[0] is None else schedule_in(schedule, form))


def arrival_out(row: ArrivalRow, form: Form) -> tuple[Any, ...]:
    """The values of ARRIVAL_COLUMNS."""
    return (
        row.schedule,
        form.id_out(row.event_id),
        form.moment_out(row.told_at),
        form.moment_out(row.heard_at),
        row.upstream,
        form.moment_out(row.nominal_at),
        text_out(row.event),
    )


def arrival_in(values: Sequence[Any], form: Form) -> ArrivalRow:
    """The row whose ARRIVAL_COLUMNS have these values."""
    return ArrivalRow(
        schedule=values[0],
        event_id=form.id_in(values[1]),
        told_at=form.moment_in(values[2]),
        heard_at=form.moment_in(values[3]),
        upstream=values[4],
        nominal_at=form.moment_in(values[5]),
        event=text_in(values[6]),
    )


def settled_out(settled: Settled, form: Form) -> tuple[Any, ...]:
    """Schedule, event and the nominal time."""
    return settled.schedule, form.id_out(settled.event_id), form.moment_out(settled.nominal_at)


def waits_for_events(due: DueSchedule) -> bool:
    """Whether its arrivals must be read before it is decided about."""
    return isinstance(due.row.asked.rule, TriggerRule)
