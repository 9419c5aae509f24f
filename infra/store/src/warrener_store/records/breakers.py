"""Circuit breakers as rows of the database."""

from collections.abc import Sequence
from typing import Any

from warrener_contracts.circuit_breaker import BreakerPolicy, BreakerState
from warrener_store.encoding import escape, unescape
from warrener_store.records.codec import ColumnCodec, decode_texts, encode_texts
from warrener_store.rows import BreakerRow

BREAKER_COLUMNS = (
    "name",
    "version",
    "state",
    "by_hand",
    "since",
    "until",
    "opened",
    "succeeded",
    "reason",
    "job_types",
    "policy",
)


def breaker_to_row(row: BreakerRow, codec: ColumnCodec) -> tuple[Any, ...]:
    """The values of BREAKER_COLUMNS."""
    return (
        row.name,
        row.version,
        row.state.value,
        row.by_hand,
        codec.encode_moment(row.since),
        codec.encode_moment(row.until),
        row.opened,
        row.succeeded,
        escape(row.reason),
        encode_texts(row.job_types),
        row.policy.model_dump_json(),
    )


def breaker_from_row(values: Sequence[Any], codec: ColumnCodec) -> BreakerRow:
    """The row whose BREAKER_COLUMNS have these values."""
    return BreakerRow(
        name=values[0],
        version=values[1],
        state=BreakerState(values[2]),
        by_hand=bool(values[3]),
        since=codec.decode_moment(values[4]),
        until=codec.decode_moment(values[5]),
        opened=values[6],
        succeeded=values[7],
        reason=unescape(values[8]),
        job_types=decode_texts(values[9]),
        policy=BreakerPolicy.model_validate_json(values[10]),
    )
