"""The ticks of a schedule: nominal times from its rule, and when each is due."""

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import dropwhile, takewhile
from uuid import NAMESPACE_OID, uuid5

from warrener_contracts.events import SchedulePutData
from warrener_contracts.rules import CronRule, IntervalRule, OnceRule
from warrener_contracts.triggers import AfterRule, EventRule, TriggerRule
from warrener_scheduler.calendar import cron
from warrener_scheduler.calendar.wall_clock import moments
from warrener_scheduler.calendar.zones import zone

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INSTANT = timedelta(microseconds=1)
_END = datetime(2190, 1, 1, tzinfo=UTC)
_WHOLE = 2**128
_FIRST_LOOK_BACK = timedelta(minutes=1)
_SHORTEST = timedelta(milliseconds=100)
"""Shorter intervals would fill the ledger faster than schedulers decide ticks, from one request."""


class NeverTicks(ValueError):
    """The rule, or its start and end, leave no tick at all."""


def check(asked: SchedulePutData, put_at: datetime) -> None:
    """Raises ValueError where it names no zone or no expression, or would never tick, or without a pause."""
    zone(asked.timezone)
    if isinstance(asked.rule, CronRule):
        cron.check(asked.rule.expression)
    if isinstance(asked.rule, IntervalRule) and asked.rule.every < _SHORTEST:
        raise ValueError(f"expected an interval of at least 0.1 s, got {asked.rule.every.total_seconds()} s")
    if isinstance(asked.rule, TriggerRule):
        if asked.choices.jitter:
            raise ValueError("expected no jitter where events make the ticks: they come when they come")
        return
    if next(nominal_times(asked, put_at, datetime.min.replace(tzinfo=UTC)), None) is None:
        raise NeverTicks(
            "expected a rule that ticks at least once between start and end, got one that never does"
        )


def nominal_times(asked: SchedulePutData, put_at: datetime, after: datetime) -> Iterator[datetime]:
    """The nominal times later than `after`, in order, each once."""
    choices = asked.choices
    if choices.start is not None:
        after = max(after, choices.start - _INSTANT)
    end = _END if choices.end is None else choices.end
    return takewhile(lambda moment: moment <= end, _of_rule(asked, put_at, after))


def previous_nominal(asked: SchedulePutData, put_at: datetime, nominal_at: datetime) -> datetime | None:
    """The nominal time before this one; None where there was none since the schedule was put."""
    span = _FIRST_LOOK_BACK
    while True:
        whole = nominal_at - put_at < span
        since = put_at - _INSTANT if whole else nominal_at - span
        before = takewhile(lambda moment: moment < nominal_at, nominal_times(asked, put_at, since))
        if found := deque(before, maxlen=1):
            return found[0]
        if whole:
            return None
        span *= 8


def due_at(asked: SchedulePutData, nominal_at: datetime) -> datetime:
    """When the tick of this nominal time is due: later by its part of the jitter, which is the same whoever
    asks and how often."""
    jitter = asked.choices.jitter
    if not jitter:
        return nominal_at
    return nominal_at + jitter * (
        uuid5(NAMESPACE_OID, f"{asked.name}\n{nominal_at.isoformat()}").int / _WHOLE
    )


def _of_rule(asked: SchedulePutData, put_at: datetime, after: datetime) -> Iterator[datetime]:
    match asked.rule:
        case CronRule(expression=expression):
            choices = asked.choices
            wall_times = partial(cron.wall_times, expression)
            since = max(after, _EPOCH)
            return moments(asked.timezone, wall_times, since, choices.skipped_hour, choices.repeated_hour)
        case IntervalRule() as interval:
            return _multiples(interval, max(after, _EPOCH))
        case OnceRule(at=at, after=delay):
            only = at or put_at + (delay or timedelta(0))
            return dropwhile(lambda moment: moment <= after, iter((only,)))
        case EventRule() | AfterRule():
            return iter(())


def _multiples(rule: IntervalRule, after: datetime) -> Iterator[datetime]:
    """Counted from the anchor, so that no tick moves the next one."""
    first = (rule.anchor or _EPOCH) + (rule.offset or timedelta(0))
    number = max(0, (after - first) // rule.every + 1)
    while (moment := first + number * rule.every) < _END:
        yield moment
        number += 1
