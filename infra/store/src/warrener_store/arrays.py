"""A batch of rows as PostgreSQL takes it: one array for each column, as short as it may be.

`unnest` fills the shorter arrays up with NULL, and what is not in an array is neither encoded nor read. The
driver asks each value of an array what it is, which takes it longer than to write the value.
"""

from collections.abc import Iterable, Sequence
from typing import Any


def compact_columns(width: int, rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """One array for each column; an empty one where it is NULL in every row, or where there is no row.

    One of the columns must never be NULL.
    """
    columns = [[*column] for column in zip(*rows, strict=True)]
    if not columns:
        return [[] for _ in range(width)]
    return [compact_nulls(column) for column in columns]


def compact_nulls(column: list[Any]) -> list[Any]:
    """The column itself; an empty one if it is NULL in every row."""
    return [] if column.count(None) == len(column) else column


def compact_repeats(column: list[Any]) -> list[Any]:
    """The column itself; its value once if all rows have the same, none at all if it is NULL in every row.

    The statement reads an array of one value as that of all rows.
    """
    if not all_equal(column):
        return column
    return [] if column[0] is None else column[:1]


def all_equal(values: Sequence[Any]) -> bool:
    """Whether all are equal. Where they are not, the first and the last say so nearly always."""
    first = values[0]
    return bool(first == values[-1]) and values.count(first) == len(values)
