"""Batches of rows: one row of each key, and columns as PostgreSQL takes them. Pure.

PostgreSQL takes one array for each column. `unnest` fills shorter arrays up with NULL, and a value that is
not in an array is neither encoded nor read, so each array is as short as it may be: the driver spends more
time on the type of a value than on writing it.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

R = TypeVar("R")
K = TypeVar("K", bound=Hashable)


def latest_by_key(rows: Iterable[R], key_of: Callable[[R], K], order_of: Callable[[R], Any]) -> dict[K, R]:
    """The newest row of each key; of equally new ones the last."""
    known: dict[K, R] = {}
    for row in rows:
        held = known.get(key_of(row))
        if held is None or order_of(row) >= order_of(held):
            known[key_of(row)] = row
    return known


def to_columns(width: int, rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """One array for each column; empty ones if there is no row."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]


def compact_columns(width: int, rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """One array for each column; an empty one where it is NULL in every row, or if there is no row.

    One of the columns must never be NULL.
    """
    return [compact_nulls(column) if column else column for column in to_columns(width, rows)]


def compact_nulls(column: list[Any]) -> list[Any]:
    """The column itself; an empty one if it is NULL in every row."""
    return [] if column.count(None) == len(column) else column


def compact_repeats(column: list[Any]) -> list[Any]:
    """The column itself; one value if all rows have the same, none if it is NULL in every row.

    The statement reads an array of one value as that of all rows.
    """
    if not all_equal(column):
        return column
    return [] if column[0] is None else column[:1]


def all_equal(values: Sequence[Any]) -> bool:
    """True if all are equal. Comparing the first with the last nearly always decides at once."""
    first = values[0]
    return bool(first == values[-1]) and values.count(first) == len(values)
