"""The moments of business days and of combined rules. What goes by the wall clock is combined by the wall
clock, and made moments of as a whole; what goes by elapsed time is narrowed to days moment by moment."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache, partial
from heapq import merge
from itertools import groupby
from typing import NamedTuple

from warrener_contracts.schedule_rules import (
    AllOfRule,
    AnyOfRule,
    CronRule,
    DstGap,
    DstOverlap,
    ExceptRule,
    IntervalRule,
    OnceRule,
    Rule,
    RulePart,
    child_rules,
)
from warrener_scheduler.calendar import cron, intervals
from warrener_scheduler.calendar.instant import INSTANT
from warrener_scheduler.calendar.times_of_day import TimesOfDay, holds, wall_times
from warrener_scheduler.calendar.wall_clock import moments
from warrener_scheduler.calendar.wall_rules import (
    BadCombination,
    RuleKind,
    all_of,
    nothing_of,
    rule_kind,
    times_of_day,
)
from warrener_scheduler.calendar.zones import zone

_MAX_LEAPS = 10_000
"""An interval that has missed its days so often in a row does not meet them."""


class RuleContext(NamedTuple):
    """What the ticks of a rule depend on beside the rule."""

    zone: str
    skipped: DstGap
    repeated: DstOverlap
    put_at: datetime


def check(rule: Rule | RulePart) -> None:
    """Raises ValueError where a part is no rule, or the parts do not go together."""
    for leaf in leaf_rules(rule):
        if isinstance(leaf, CronRule):
            cron.parse_cron(leaf.expression)
        elif isinstance(leaf, IntervalRule):
            intervals.check(leaf)
    if rule_kind(rule) is RuleKind.DAYS:
        raise BadCombination(
            "expected a rule that ticks, got days alone: put them into all_of, together with a rule that "
            "says at what times"
        )


def leaf_rules(rule: Rule | RulePart) -> Iterator[Rule | RulePart]:
    """The rules that it is made of in the end; itself, if it is not combined."""
    parts = child_rules(rule)
    if not parts:
        yield rule
    for part in parts:
        yield from leaf_rules(part)


def uses_wall_clock(rule: Rule | RulePart) -> bool:
    """Whether clock changes matter to it."""
    return any(rule_kind(leaf) is not RuleKind.ELAPSED for leaf in leaf_rules(rule))


def combined_ticks(rule: Rule | RulePart, context: RuleContext, after: datetime) -> Iterator[datetime]:
    """The moments later than `after` at which the rule ticks, in order, each once."""
    return _within(rule, context, after, None)


def _within(
    rule: Rule | RulePart, context: RuleContext, after: datetime, days: TimesOfDay | None
) -> Iterator[datetime]:
    """Those of the rule that `days` hold; None: all."""
    if rule_kind(rule) is RuleKind.WALL:
        times = _compiled(rule) if days is None else all_of((_compiled(rule), days))
        return _moments(context, times, after, context.skipped, context.repeated)
    match rule:
        case AnyOfRule():
            ticks = merge(*(_within(part, context, after, days) for part in rule.rules))
            return (moment for moment, _ in groupby(ticks))
        case AllOfRule():
            (ticking,) = (part for part in rule.rules if rule_kind(part) is not RuleKind.DAYS)
            narrowing = [_compiled(part) for part in rule.rules if part is not ticking]
            return _within(ticking, context, after, _intersected(days, *narrowing))
        case ExceptRule():
            left = nothing_of([_compiled(part) for part in rule.without])
            return _within(rule.rule, context, after, _intersected(days, left))
        case IntervalRule() as interval:
            return (
                intervals.multiples(interval, after)
                if days is None
                else _multiples_within(interval, context, after, days)
            )
        case OnceRule(at=at, after=delay):
            only = at or context.put_at + (delay or timedelta(0))
            return iter((only,) if only > after and (days is None or _holds(days, context, only)) else ())
        case _:
            raise BadCombination(f"expected a rule that ticks, got one of kind {rule.kind!r}")


@lru_cache(maxsize=4096)
def _compiled(rule: Rule | RulePart) -> TimesOfDay:
    return times_of_day(rule)


def _intersected(days: TimesOfDay | None, *others: TimesOfDay) -> TimesOfDay:
    return all_of(others if days is None else (days, *others))


def _multiples_within(
    rule: IntervalRule, context: RuleContext, after: datetime, days: TimesOfDay
) -> Iterator[datetime]:
    """Its multiples that the days hold. Where they do not, it leaps to where they begin to."""
    last, leaps = after, 0
    while (moment := next(intervals.multiples(rule, last), None)) is not None and leaps < _MAX_LEAPS:
        if _holds(days, context, moment):
            yield moment
            last, leaps = moment, 0
            continue
        opening = next(_moments(context, days, moment, DstGap.SKIP, DstOverlap.BOTH), None)
        if opening is None:
            return
        last, leaps = opening - INSTANT, leaps + 1


def _holds(days: TimesOfDay, context: RuleContext, moment: datetime) -> bool:
    return holds(days, moment.astimezone(zone(context.zone)))


def _moments(
    context: RuleContext, times: TimesOfDay, after: datetime, skipped: DstGap, repeated: DstOverlap
) -> Iterator[datetime]:
    since = max(after, intervals.EPOCH)
    return moments(context.zone, partial(wall_times, times), since, skipped, repeated)
