"""The moments of all rules but plain cron: intervals, single times, and combinations.

Parts by the wall clock are combined by the wall clock, and become moments as a whole; parts by elapsed time
are restricted to days moment by moment. Pure.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from heapq import merge
from itertools import groupby
from typing import NamedTuple

from warrener_calendar import cron, wall_rules
from warrener_calendar.dst import moments
from warrener_calendar.zones import zone
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

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
END = datetime(2190, 1, 1, tzinfo=UTC)
_MIN_INTERVAL = timedelta(milliseconds=100)
"""Shorter intervals would write ticks faster than schedulers decide them, from one request."""
_MAX_LEAPS = 10_000  # an interval that misses its days so many times in a row never meets them


class RuleContext(NamedTuple):
    """The values beside a rule that its ticks depend on."""

    zone: str
    skipped: DstGap
    repeated: DstOverlap
    put_at: datetime
    steps: wall_rules.Steps | None = None  # None: unbounded

    def counted(self, times: wall_rules.TimesOfDay) -> wall_rules.TimesOfDay:
        """Return times of which each day that is looked at counts as a step."""
        return times if self.steps is None else self.steps.count(times)


def check(rule: Rule | RulePart) -> None:
    """Raise ValueError if a part is no rule, or if the parts do not fit together."""
    for leaf in leaf_rules(rule):
        if isinstance(leaf, CronRule):
            cron.parse_cron(leaf.expression)
        elif isinstance(leaf, IntervalRule):
            _check_interval(leaf)
    if wall_rules.rule_kind(rule) is wall_rules.RuleKind.DAYS:
        raise wall_rules.BadCombination(
            "expected a rule that ticks, got days alone: put them into all_of, together with a rule that "
            "says at what times"
        )


def leaf_rules(rule: Rule | RulePart) -> Iterator[Rule | RulePart]:
    """Yield the rules that a combination consists of; the rule itself if it is not combined."""
    parts = child_rules(rule)
    if not parts:
        yield rule
    for part in parts:
        yield from leaf_rules(part)


def uses_wall_clock(rule: Rule | RulePart) -> bool:
    """True if clock changes affect the rule."""
    return any(wall_rules.rule_kind(leaf) is not wall_rules.RuleKind.ELAPSED for leaf in leaf_rules(rule))


def combined_ticks(rule: Rule | RulePart, context: RuleContext, after: datetime) -> Iterator[datetime]:
    """Yield the moments later than `after` at which the rule ticks, in order, each once."""
    return _within(rule, context, after, None)


def _within(
    rule: Rule | RulePart, context: RuleContext, after: datetime, days: wall_rules.TimesOfDay | None
) -> Iterator[datetime]:
    """Yield the ticks that `days` include; None includes all."""
    if wall_rules.rule_kind(rule) is wall_rules.RuleKind.WALL:
        times = _compiled(rule) if days is None else wall_rules.all_of((_compiled(rule), days))
        return _moments(context, times, after, context.skipped, context.repeated)
    match rule:
        case AnyOfRule():
            ticks = merge(*(_within(part, context, after, days) for part in rule.rules))
            return (moment for moment, _ in groupby(ticks))
        case AllOfRule():
            (ticking,) = (
                part for part in rule.rules if wall_rules.rule_kind(part) is not wall_rules.RuleKind.DAYS
            )
            narrowing = [_compiled(part) for part in rule.rules if part is not ticking]
            return _within(ticking, context, after, _intersected(days, *narrowing))
        case ExceptRule():
            left = wall_rules.nothing_of([_compiled(part) for part in rule.without])
            return _within(rule.rule, context, after, _intersected(days, left))
        case IntervalRule() as interval:
            return (
                _multiples(interval, after)
                if days is None
                else _multiples_within(interval, context, after, days)
            )
        case OnceRule(at=at, after=delay):
            only = at or context.put_at + (delay or timedelta(0))
            return iter((only,) if only > after and (days is None or _holds(days, context, only)) else ())
        case _:
            raise wall_rules.BadCombination(f"expected a rule that ticks, got one of kind {rule.kind!r}")


@lru_cache(maxsize=4096)
def _compiled(rule: Rule | RulePart) -> wall_rules.TimesOfDay:
    return wall_rules.times_of_day(rule)


def _intersected(days: wall_rules.TimesOfDay | None, *others: wall_rules.TimesOfDay) -> wall_rules.TimesOfDay:
    return wall_rules.all_of(others if days is None else (days, *others))


def _multiples(rule: IntervalRule, after: datetime) -> Iterator[datetime]:
    """Yield the ticks later than `after`, counted from the anchor, so that no tick moves the next one."""
    first = (rule.anchor or EPOCH) + (rule.offset or timedelta(0))
    number = max(0, (max(after, EPOCH) - first) // rule.every + 1)
    while (moment := first + number * rule.every) < END:
        yield moment
        number += 1


def _multiples_within(
    rule: IntervalRule, context: RuleContext, after: datetime, days: wall_rules.TimesOfDay
) -> Iterator[datetime]:
    """Yield the ticks that the days include; behind the others, leap to the next time that they include."""
    last, leaps = after, 0
    while (moment := next(_multiples(rule, last), None)) is not None and leaps < _MAX_LEAPS:
        if _holds(days, context, moment):
            yield moment
            last, leaps = moment, 0
            continue
        opening = next(_moments(context, days, moment, DstGap.SKIP, DstOverlap.BOTH), None)
        if opening is None:
            return
        last, leaps = opening - timedelta.resolution, leaps + 1


def _holds(days: wall_rules.TimesOfDay, context: RuleContext, moment: datetime) -> bool:
    return wall_rules.holds(context.counted(days), moment.astimezone(zone(context.zone)))


def _moments(
    context: RuleContext, times: wall_rules.TimesOfDay, after: datetime, skipped: DstGap, repeated: DstOverlap
) -> Iterator[datetime]:
    since = max(after, EPOCH)
    return moments(
        context.zone, partial(wall_rules.wall_times, context.counted(times)), since, skipped, repeated
    )


def _check_interval(rule: IntervalRule) -> None:
    if rule.every < _MIN_INTERVAL:
        raise ValueError(f"expected an interval of at least 0.1 s, got {rule.every.total_seconds()} s")
