"""Announcements: of several about one thing, the newest counts."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

R = TypeVar("R")
K = TypeVar("K", bound=Hashable)


def latest_by_key(rows: Iterable[R], key_of: Callable[[R], K], order_of: Callable[[R], Any]) -> dict[K, R]:
    """The newest row about each thing; of equally new ones the last."""
    known: dict[K, R] = {}
    for row in rows:
        held = known.get(key_of(row))
        if held is None or order_of(row) >= order_of(held):
            known[key_of(row)] = row
    return known
