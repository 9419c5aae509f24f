"""The ticks of an interval. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from warrener_contracts.schedule_rules import IntervalRule

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
END = datetime(2190, 1, 1, tzinfo=UTC)
SHORTEST = timedelta(milliseconds=100)
"""Shorter intervals would fill the ledger faster than schedulers decide ticks, from one request."""


def check(rule: IntervalRule) -> None:
    """Raises ValueError where it is too short."""
    if rule.every < SHORTEST:
        raise ValueError(f"expected an interval of at least 0.1 s, got {rule.every.total_seconds()} s")


def multiples(rule: IntervalRule, after: datetime) -> Iterator[datetime]:
    """Those later than `after`, counted from the anchor, so that no tick moves the next one."""
    first = (rule.anchor or EPOCH) + (rule.offset or timedelta(0))
    number = max(0, (max(after, EPOCH) - first) // rule.every + 1)
    while (moment := first + number * rule.every) < END:
        yield moment
        number += 1
