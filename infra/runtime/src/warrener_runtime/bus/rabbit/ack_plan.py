"""Which acknowledgements to write: one range and a few single ones instead of one for each."""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple


class AckPlan(NamedTuple):
    """Acknowledge everything up to `up_to` at once, and `individual` one by one."""

    up_to: int | None
    individual: list[int]


def plan_acks(unsettled: Collection[int], done: Collection[int]) -> AckPlan:
    """Plan for `done`, given all that is unsettled in ascending order (`done` is part of it).

    A range takes every unsettled tag below its end, so it may reach only up to the first that is not done.
    """
    if len(done) == len(unsettled) > 1:
        return AckPlan(max(done), [])
    up_to: int | None = None
    count = 0
    for tag in _while_done(unsettled, done):
        up_to = tag
        count += 1
    if count <= 1:
        return AckPlan(None, sorted(done))
    assert up_to is not None
    end = up_to
    return AckPlan(end, sorted(tag for tag in done if tag > end))


def _while_done(unsettled: Iterable[int], done: Collection[int]) -> Iterator[int]:
    for tag in unsettled:
        if tag not in done:
            return
        yield tag
