"""Announcements: of several about one thing, the newest counts."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

R = TypeVar("R")
K = TypeVar("K", bound=Hashable)


def newest(rows: Iterable[R], about: Callable[[R], K], told_at: Callable[[R], Any]) -> dict[K, R]:
    """The newest row about each thing; of equally new ones the last."""
    known: dict[K, R] = {}
    for row in rows:
        held = known.get(about(row))
        if held is None or told_at(row) >= told_at(held):
            known[about(row)] = row
    return known
