"""Addresses and arrivals as the values of columns, and back."""

from collections.abc import Sequence
from typing import Any

from warrener_contracts.triggers import TriggerRule
from warrener_store.encoding import escape, unescape
from warrener_store.records.codec import ColumnCodec, decode_text, encode_text
from warrener_store.schedules.rows import ScheduleRow
from warrener_store.triggers.rows import Address, ArrivalOutcome, ArrivalRow

ARRIVAL_COLUMNS = ("schedule", "event_id", "told_at", "heard_at", "upstream", "nominal_at", "event")


def address_to_row(address: Address) -> tuple[str, str]:
    """Exchange and key."""
    return escape(address[0]), escape(address[1])


def address_from_row(values: Sequence[Any]) -> Address:
    """What `address_to_row` was given."""
    return unescape(values[0]), unescape(values[1])


def arrival_to_row(row: ArrivalRow, codec: ColumnCodec) -> tuple[Any, ...]:
    """The values of ARRIVAL_COLUMNS."""
    return (
        row.schedule,
        codec.encode_id(row.event_id),
        codec.encode_moment(row.told_at),
        codec.encode_moment(row.heard_at),
        row.upstream,
        codec.encode_moment(row.nominal_at),
        encode_text(row.event),
    )


def arrival_from_row(values: Sequence[Any], codec: ColumnCodec) -> ArrivalRow:
    """The row whose ARRIVAL_COLUMNS have these values."""
    return ArrivalRow(
        schedule=values[0],
        event_id=codec.decode_id(values[1]),
        told_at=codec.decode_moment(values[2]),
        heard_at=codec.decode_moment(values[3]),
        upstream=values[4],
        nominal_at=codec.decode_moment(values[5]),
        event=decode_text(values[6]),
    )


def arrival_outcome_to_row(settled: ArrivalOutcome, codec: ColumnCodec) -> tuple[Any, ...]:
    """Schedule, event and the nominal time."""
    return settled.schedule, codec.encode_id(settled.event_id), codec.encode_moment(settled.nominal_at)


def is_triggered(row: ScheduleRow) -> bool:
    """Whether it waits for something in place of a time. `waiting_schedules.sql` says the same."""
    return isinstance(row.asked.rule, TriggerRule)
