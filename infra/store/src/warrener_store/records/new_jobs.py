"""Jobs as they are inserted: a batch is one statement, handed over column by column."""

from collections.abc import Sequence
from typing import Any

from warrener_store.arrays import all_equal, compact_nulls
from warrener_store.records.codec import POSTGRES_CODEC, ColumnCodec
from warrener_store.records.columns import encode_columns
from warrener_store.records.jobs import JOB_COLUMNS
from warrener_store.rows import JobRow


def jobs_to_columns(rows: Sequence[JobRow], codec: ColumnCodec) -> list[list[Any]]:
    """The values of each of JOB_COLUMNS, in the order of `rows`; no columns where there is no row."""
    return encode_columns(JOB_COLUMNS, rows, codec)


def jobs_to_arrays(rows: Sequence[JobRow]) -> list[list[Any]]:
    """The columns as PostgreSQL's `insert_jobs` takes them, each as short as it may be."""
    return list(map(_compact_column, JOB_COLUMNS, jobs_to_columns(rows, POSTGRES_CODEC)))


_MOSTLY_ONE = frozenset(
    {
        "job_type",
        "queue",
        "guarantee",
        "policy",
        "source",
        "accepted_at",
        "version",
        "state",
        "attempt",
        "failures",
        "losses",
        "watchers",
        "wake_at",
        "dispatched_at",
        "updated_at",
    }
)
"""Columns of a new job that hold one value in nearly every batch; `insert_jobs.sql` takes it once."""


def _compact_column(name: str, column: list[Any]) -> list[Any]:
    """A column as short as the statement takes it: one value for all, or none where it is NULL."""
    if name in _MOSTLY_ONE and all_equal(column):
        return column[:1]
    return compact_nulls(column)
