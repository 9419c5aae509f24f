"""A batch of rows as PostgreSQL takes it: one array for each column."""

from collections.abc import Iterable
from typing import Any


def short_arrays(width: int, rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """One array for each column; an empty one where it is NULL in every row, or where there is no row.

    `unnest` fills the shorter arrays up with NULL, and what is not in an array is neither encoded nor read:
    most of what can become of a job is NULL in most batches. One of the columns must never be NULL.
    """
    columns = [[*column] for column in zip(*rows, strict=True)]
    if not columns:
        return [[] for _ in range(width)]
    return [short(column) for column in columns]


def short(column: list[Any]) -> list[Any]:
    """The column itself; an empty one if it is NULL in every row."""
    return [] if column.count(None) == len(column) else column
