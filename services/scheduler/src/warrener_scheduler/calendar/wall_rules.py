"""Rules by the wall clock, as the times of each day; combined, they are combined by the wall clock too. So a
clock change meets what is left of them, once. Pure."""

from collections.abc import Sequence
from datetime import date
from enum import Enum

from warrener_contracts.schedule_rules import (
    AllOfRule,
    AnyOfRule,
    BusinessDaysRule,
    CronRule,
    DaysRule,
    ExceptRule,
    Rule,
    RulePart,
    Weekday,
    child_rules,
)
from warrener_scheduler.calendar import cron
from warrener_scheduler.calendar.business_days import make_day_filter
from warrener_scheduler.calendar.times_of_day import ALL_DAY, NO_TIME, TimesOfDay, between, product, these

_WEEKDAYS = tuple(Weekday)


class BadCombination(ValueError):
    """Rules that cannot be combined in this way."""


class RuleKind(Enum):
    """What kind of thing a rule is when it is combined."""

    DAYS = "days"  # holds for whole stretches of time, and ticks at none of its own
    WALL = "wall"  # ticks by the wall clock
    ELAPSED = "elapsed"  # ticks, some of it at least, at moments that no wall clock knows


def rule_kind(rule: Rule | RulePart) -> RuleKind:
    """Raises BadCombination where its parts do not go together."""
    kinds = [rule_kind(part) for part in child_rules(rule)]
    match rule:
        case DaysRule():
            return RuleKind.DAYS
        case CronRule() | BusinessDaysRule():
            return RuleKind.WALL
        case AnyOfRule():
            return _of_any(kinds)
        case AllOfRule():
            return _of_all(kinds)
        case ExceptRule():
            return _of_except(kinds)
        case _:
            return RuleKind.ELAPSED


def _of_any(kinds: Sequence[RuleKind]) -> RuleKind:
    if RuleKind.DAYS in kinds and len(set(kinds)) > 1:
        raise BadCombination(
            "expected any_of rules that tick, or of days alone, got both: days tick at no time of their own; "
            "put them into all_of, together with the rule that they narrow"
        )
    return RuleKind.ELAPSED if RuleKind.ELAPSED in kinds else kinds[0]


def _of_all(kinds: Sequence[RuleKind]) -> RuleKind:
    ticking = [one for one in kinds if one is not RuleKind.DAYS]
    if RuleKind.ELAPSED in ticking and len(ticking) > 1:
        raise BadCombination(
            "expected all_of with an interval or a single time to have nothing but days beside it, got "
            "another rule that ticks: both would have to tick in one instant; say its times as days, with "
            "since and until"
        )
    return ticking[0] if ticking else RuleKind.DAYS


def _of_except(kinds: Sequence[RuleKind]) -> RuleKind:
    mine, others = kinds[0], kinds[1:]
    allowed = {RuleKind.DAYS, RuleKind.WALL} if mine is RuleKind.WALL else {RuleKind.DAYS}
    if not allowed.issuperset(others):
        expected = "rules by the wall clock and days" if mine is RuleKind.WALL else "days alone"
        raise BadCombination(
            f"expected except to take {expected} away from such a rule, got a rule that ticks otherwise: "
            "say its times as days, with dates, since and until"
        )
    return mine


def times_of_day(rule: Rule | RulePart) -> TimesOfDay:
    """Its times on each day; of a set of days, those that it holds. For rules that are not ELAPSED."""
    parts = [times_of_day(part) for part in child_rules(rule)]
    match rule:
        case CronRule(expression=expression):
            return _of_cron(cron.parse_cron(expression))
        case BusinessDaysRule():
            return _of_business_days(rule)
        case DaysRule():
            return _of_days(rule)
        case AnyOfRule():
            return any_of(parts)
        case AllOfRule():
            return all_of(parts)
        case ExceptRule():
            return all_of((parts[0], nothing_of(parts[1:])))
        case _:
            raise BadCombination(f"expected a rule by the wall clock, got one of kind {rule.kind!r}")


def any_of(parts: Sequence[TimesOfDay]) -> TimesOfDay:
    """The times of any of these."""

    def times(day: date) -> int:
        found = NO_TIME
        for part in parts:
            found |= part(day)
        return found

    return times


def all_of(parts: Sequence[TimesOfDay]) -> TimesOfDay:
    """The times that all of these have."""

    def times(day: date) -> int:
        found = ALL_DAY
        for part in parts:
            if not (found := found & part(day)):
                break
        return found

    return times


def nothing_of(parts: Sequence[TimesOfDay]) -> TimesOfDay:
    """The times that none of these has."""
    taken = any_of(parts)
    return lambda day: ALL_DAY & ~taken(day)


def _of_cron(expression: cron.Cron) -> TimesOfDay:
    times = product(expression.hours, expression.minutes, expression.seconds)
    return lambda day: times if expression.match_date(day) else NO_TIME


def _of_business_days(rule: BusinessDaysRule) -> TimesOfDay:
    times, ticks_on = these(rule.at), make_day_filter(rule)
    return lambda day: times if ticks_on(day) else NO_TIME


def _of_days(rule: DaysRule) -> TimesOfDay:
    times = between(rule.since, rule.until) if rule.since or rule.until else ALL_DAY
    weekdays = frozenset(_WEEKDAYS.index(name) for name in rule.weekdays or _WEEKDAYS)
    months, dates = frozenset(rule.months or range(1, 13)), frozenset(rule.dates)

    def held(day: date) -> bool:
        return day.weekday() in weekdays and day.month in months and (not dates or day in dates)

    return lambda day: times if held(day) else NO_TIME
