"""The ticks of a schedule: nominal times from its rule, and when each is due."""

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import takewhile
from uuid import NAMESPACE_OID, uuid5

from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import CronRule
from warrener_contracts.triggers import AfterRule, EventRule, TriggerRule
from warrener_scheduler.calendar import combined, cron, intervals
from warrener_scheduler.calendar.combined import RuleContext
from warrener_scheduler.calendar.instant import INSTANT
from warrener_scheduler.calendar.wall_clock import moments
from warrener_scheduler.calendar.zones import zone

_PAST = datetime.min.replace(tzinfo=UTC)
_WHOLE = 2**128
_FIRST_LOOK_BACK = timedelta(minutes=1)


class NeverTicks(ValueError):
    """The rule, or its start and end, leave no tick at all."""


def check(spec: SchedulePutData, put_at: datetime) -> None:
    """Raises ValueError where it names no zone or no expression, or would never tick, or without a pause."""
    zone(spec.timezone)
    if isinstance(spec.rule, TriggerRule):
        if spec.choices.jitter:
            raise ValueError("expected no jitter where events make the ticks: they come when they come")
        return
    combined.check(spec.rule)
    # Its ticks may all be past, but one that ticks from now on is found without looking at the past.
    if all(next(nominal_times(spec, put_at, begin), None) is None for begin in (put_at, _PAST)):
        raise NeverTicks(
            "expected a rule that ticks at least once between start and end, got one that never does"
        )


def nominal_times(spec: SchedulePutData, put_at: datetime, after: datetime) -> Iterator[datetime]:
    """The nominal times later than `after`, in order, each once."""
    choices = spec.choices
    if choices.start is not None:
        after = max(after, choices.start - INSTANT)
    end = intervals.END if choices.end is None else choices.end
    return takewhile(lambda moment: moment <= end, _of_rule(spec, put_at, after))


def previous_nominal(
    spec: SchedulePutData, put_at: datetime, nominal_at: datetime, *, since: datetime | None = None
) -> datetime | None:
    """The nominal time before this one; None where there was none since the schedule was put, or `since`."""
    span, first = _FIRST_LOOK_BACK, since or put_at
    while True:
        whole = nominal_at - first < span
        after = first - INSTANT if whole else nominal_at - span
        before = takewhile(lambda moment: moment < nominal_at, nominal_times(spec, put_at, after))
        if found := deque(before, maxlen=1):
            return found[0]
        if whole:
            return None
        span *= 8


def due_at(spec: SchedulePutData, nominal_at: datetime) -> datetime:
    """When the tick of this nominal time is due: later by its part of the jitter, which is the same whoever
    asks and how often."""
    jitter = spec.choices.jitter
    if not jitter:
        return nominal_at
    return nominal_at + jitter * (uuid5(NAMESPACE_OID, f"{spec.name}\n{nominal_at.isoformat()}").int / _WHOLE)


def _of_rule(spec: SchedulePutData, put_at: datetime, after: datetime) -> Iterator[datetime]:
    choices = spec.choices
    match spec.rule:
        case CronRule(expression=expression):
            wall_times = partial(cron.wall_times, expression)
            since = max(after, intervals.EPOCH)
            return moments(spec.timezone, wall_times, since, choices.skipped_hour, choices.repeated_hour)
        case EventRule() | AfterRule():
            return iter(())
        case rule:
            context = RuleContext(spec.timezone, choices.skipped_hour, choices.repeated_hour, put_at)
            return combined.combined_ticks(rule, context, after)
