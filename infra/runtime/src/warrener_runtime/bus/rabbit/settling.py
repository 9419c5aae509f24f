"""Which acknowledgements to write: one range and a few single ones instead of one for each."""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple


class AckPlan(NamedTuple):
    """Acknowledge everything up to `upto` at once, and `singly` one by one."""

    upto: int | None
    singly: list[int]


def plan_acks(unsettled: Collection[int], done: Collection[int]) -> AckPlan:
    """Plan for `done`, given all that is unsettled in ascending order (`done` is part of it).

    A range takes every unsettled tag below its end, so it may reach only up to the first that is not done.
    """
    if len(done) == len(unsettled) > 1:
        return AckPlan(max(done), [])
    upto: int | None = None
    count = 0
    for tag in _while_done(unsettled, done):
        upto = tag
        count += 1
    if count <= 1:
        return AckPlan(None, sorted(done))
    assert upto is not None
    end = upto
    return AckPlan(end, sorted(tag for tag in done if tag > end))


def _while_done(unsettled: Iterable[int], done: Collection[int]) -> Iterator[int]:
    for tag in unsettled:
        if tag not in done:
            return
        yield tag
