"""True for the wall minutes at which a rule ticks: an independent, slow statement, which looks at
each day by itself and knows neither cronsim nor our calendar."""

from calendar import monthrange
from collections.abc import Iterator
from datetime import date, datetime, timedelta

from warrener_contracts.schedule_rules import (
    AllOfRule,
    AnyOfRule,
    BusinessDayConvention,
    BusinessDaysRule,
    CronRule,
    DaysRule,
    ExceptRule,
    Rule,
    RulePart,
    Weekday,
)

_DAY = timedelta(days=1)
_NAMES = list(Weekday)


def ticks_at(rule: Rule | RulePart, wall: datetime) -> bool:
    """For rules in whole minutes; a set of days ticks at every minute that it holds."""
    match rule:
        case CronRule(expression=expression):
            return _cron(expression, wall)
        case BusinessDaysRule():
            return wall.time() in rule.at and _business_day(rule, wall.date())
        case DaysRule():
            return _held(rule, wall)
        case AnyOfRule():
            return any(ticks_at(part, wall) for part in rule.rules)
        case AllOfRule():
            return all(ticks_at(part, wall) for part in rule.rules)
        case ExceptRule():
            return ticks_at(rule.rule, wall) and not any(ticks_at(part, wall) for part in rule.without)
        case _:
            raise AssertionError(f"{rule.kind} knows no wall clock")


def _cron(expression: str, wall: datetime) -> bool:
    minute, hour, day, month, weekday = expression.split()
    if not (_among(minute, wall.minute) and _among(hour, wall.hour) and _among(month, wall.month)):
        return False
    by_month = any(_day_of_month(term, wall.date()) for term in day.split(","))
    by_week = _among(weekday, wall.isoweekday() % 7) or _among(weekday, wall.isoweekday())
    both = day.startswith("*") or weekday.startswith("*")
    return (by_month and by_week) if both else (by_month or by_week)


def _among(field: str, number: int) -> bool:
    return field == "*" or str(number) in field.split(",")


def _day_of_month(term: str, day: date) -> bool:
    last = monthrange(day.year, day.month)[1]
    if term == "L":
        return day.day == last
    if term.endswith("W"):
        return day == _nearest_weekday(term.removesuffix("W"), day, last)
    return _among(term, day.day)


def _nearest_weekday(wanted: str, day: date, last: int) -> date | None:
    """Of all weekdays of this month the one that is the least days away."""
    target = last if wanted == "L" else int(wanted)
    weekdays = [n for n in range(1, last + 1) if day.replace(day=n).isoweekday() < 6]
    if wanted == "L":
        return day.replace(day=weekdays[-1])
    return day.replace(day=min(weekdays, key=lambda n: abs(n - target))) if target <= last else None


def _held(rule: DaysRule, wall: datetime) -> bool:
    on = not rule.weekdays or _NAMES[wall.weekday()] in rule.weekdays
    on = on and (not rule.months or wall.month in rule.months)
    on = on and (not rule.dates or wall.date() in rule.dates)
    now, since, until = wall.time(), rule.since, rule.until
    if since and until and until < since:
        return on and (now >= since or now < until)
    return on and (since is None or now >= since) and (until is None or now < until)


def _is_business(rule: BusinessDaysRule, day: date) -> bool:
    return _NAMES[day.weekday()] in rule.weekdays and day not in rule.holidays


def _business_day(rule: BusinessDaysRule, day: date) -> bool:
    if not _is_business(rule, day):
        return False
    if rule.nth:
        month = [found for found in _month_of(day) if _is_business(rule, found)]
        first, last = month.index(day) + 1, month.index(day) - len(month)
        return (not rule.months or day.month in rule.months) and (first in rule.nth or last in rule.nth)
    if not rule.days:
        return not rule.months or day.month in rule.months
    around = (day + n * _DAY for n in range(-31, 32))
    return any(
        target.day in rule.days
        and (not rule.months or target.month in rule.months)
        and _goes_to(rule, target) == day
        for target in around
    )


def _month_of(day: date) -> Iterator[date]:
    for number in range(1, monthrange(day.year, day.month)[1] + 1):
        yield day.replace(day=number)


def _goes_to(rule: BusinessDaysRule, target: date) -> date | None:
    if _is_business(rule, target):
        return target
    near = [target + n * _DAY for n in range(-31, 32) if _is_business(rule, target + n * _DAY)]
    before, after = [day for day in near if day < target], [day for day in near if day > target]
    match rule.business_day_convention:
        case BusinessDayConvention.SKIP:
            return None
        case BusinessDayConvention.BEFORE:
            return max(before, default=None)
        case BusinessDayConvention.AFTER:
            return min(after, default=None)
        case BusinessDayConvention.NEAREST:
            return min(near, key=lambda day: (abs(day - target), day), default=None)
