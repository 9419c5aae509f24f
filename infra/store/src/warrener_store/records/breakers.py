"""Circuit breakers as rows of the database."""

from collections.abc import Sequence
from typing import Any

from warrener_contracts.circuit_breaker import BreakerPolicy, BreakerState
from warrener_store.encoding import escape, unescape
from warrener_store.records.form import Form, texts_in, texts_out
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


def breaker_out(row: BreakerRow, form: Form) -> tuple[Any, ...]:
    """The values of BREAKER_COLUMNS."""
    return (
        row.name,
        row.version,
        row.state.value,
        row.by_hand,
        form.moment_out(row.since),
        form.moment_out(row.until),
        row.opened,
        row.succeeded,
        escape(row.reason),
        texts_out(row.job_types),
        row.policy.model_dump_json(),
    )


def breaker_in(values: Sequence[Any], form: Form) -> BreakerRow:
    """The row whose BREAKER_COLUMNS have these values."""
    return BreakerRow(
        name=values[0],
        version=values[1],
        state=BreakerState(values[2]),
        by_hand=bool(values[3]),
        since=form.moment_in(values[4]),
        until=form.moment_in(values[5]),
        opened=values[6],
        succeeded=values[7],
        reason=unescape(values[8]),
        job_types=texts_in(values[9]),
        policy=BreakerPolicy.model_validate_json(values[10]),
    )
