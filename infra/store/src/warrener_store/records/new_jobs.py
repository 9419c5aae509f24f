"""Jobs as they are inserted: a batch is one statement, handed over column by column."""

from collections.abc import Sequence
from typing import Any

from warrener_store.arrays import alike, short
from warrener_store.records.columns import columns_of
from warrener_store.records.form import NATIVE, Form
from warrener_store.records.jobs import JOB_COLUMNS
from warrener_store.rows import JobRow


def columns_out(rows: Sequence[JobRow], form: Form) -> list[list[Any]]:
    """The values of each of JOB_COLUMNS, in the order of `rows`; no columns where there is no row."""
    return columns_of(JOB_COLUMNS, rows, form)


def arrays_out(rows: Sequence[JobRow]) -> list[list[Any]]:
    """The columns as PostgreSQL's `insert_jobs` takes them, each as short as it may be."""
    return list(map(_short, JOB_COLUMNS, columns_out(rows, NATIVE)))


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


def _short(name: str, column: list[Any]) -> list[Any]:
    """A column as short as the statement takes it: one value for all, or none where it is NULL."""
    if name in _MOSTLY_ONE and alike(column):
        return column[:1]
    return short(column)
