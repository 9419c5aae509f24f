"""A batch of rows as PostgreSQL takes it: one array for each column, as short as it may be.

`unnest` fills the shorter arrays up with NULL, and what is not in an array is neither encoded nor read. The
driver asks each value of an array what it is, which takes it longer than to write the value.
"""

from collections.abc import Iterable, Sequence
from typing import Any


def short_arrays(width: int, rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """One array for each column; an empty one where it is NULL in every row, or where there is no row.

    One of the columns must never be NULL.
    """
    columns = [[*column] for column in zip(*rows, strict=True)]
    if not columns:
        return [[] for _ in range(width)]
    return [short(column) for column in columns]


def short(column: list[Any]) -> list[Any]:
    """The column itself; an empty one if it is NULL in every row."""
    return [] if column.count(None) == len(column) else column


def once(column: list[Any]) -> list[Any]:
    """The column itself; its value once if all rows have the same, none at all if it is NULL in every row.

    The statement reads an array of one value as that of all rows.
    """
    if not alike(column):
        return column
    return [] if column[0] is None else column[:1]


def alike(values: Sequence[Any]) -> bool:
    """Whether all are equal. Where they are not, the first and the last say so nearly always."""
    first = values[0]
    return bool(first == values[-1]) and values.count(first) == len(values)
