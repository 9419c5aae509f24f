"""Addresses and arrivals as the values of columns, and back."""

from collections.abc import Sequence
from typing import Any

from warrener_contracts.triggers import TriggerRule
from warrener_store.encoding import escape, unescape
from warrener_store.records.form import Form, text_in, text_out
from warrener_store.schedules.rows import ScheduleRow
from warrener_store.triggers.rows import Address, ArrivalRow, Settled

ARRIVAL_COLUMNS = ("schedule", "event_id", "told_at", "heard_at", "upstream", "nominal_at", "event")


def address_out(address: Address) -> tuple[str, str]:
    """Exchange and key."""
    return escape(address[0]), escape(address[1])


def address_in(values: Sequence[Any]) -> Address:
    """What `address_out` was given."""
    return unescape(values[0]), unescape(values[1])


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


def waits(row: ScheduleRow) -> bool:
    """Whether it waits for something in place of a time. `waiting_schedules.sql` says the same."""
    return isinstance(row.asked.rule, TriggerRule)
