"""The rule of a schedule in a few words."""

from collections.abc import Iterable, Sequence
from datetime import time

from warrener.render.times import span
from warrener.render.triggers import trigger_text
from warrener_contracts.schedule_rules import (
    WORKING_WEEK,
    AllOfRule,
    AnyOfRule,
    BusinessDayConvention,
    BusinessDaysRule,
    CronRule,
    DaysRule,
    ExceptRule,
    IntervalRule,
    OnceRule,
    Rule,
    RulePart,
)
from warrener_contracts.triggers import AfterRule, EventRule

_MOST_NAMED = 3
_ROLLS = {
    BusinessDayConvention.SKIP: "if it is a business day",
    BusinessDayConvention.BEFORE: "or the business day before",
    BusinessDayConvention.AFTER: "or the business day after",
    BusinessDayConvention.NEAREST: "or the nearest business day",
}


def rule_text(rule: Rule | RulePart) -> str:
    """A rule in a few words."""
    match rule:
        case CronRule(expression=expression):
            text = expression
        case IntervalRule(every=every):
            text = f"every {span(every)}"
        case OnceRule(at=at):
            text = "once" if at is None else f"once at {at:%Y-%m-%d %H:%M:%S}"
        case BusinessDaysRule():
            text = _business_days(rule)
        case DaysRule():
            text = _days(rule)
        case AnyOfRule():
            text = f"any of ({_parts(rule.rules)})"
        case AllOfRule():
            text = f"all of ({_parts(rule.rules)})"
        case ExceptRule():
            text = f"{rule_text(rule.rule)} except ({_parts(rule.without)})"
        case EventRule() | AfterRule():
            text = trigger_text(rule)
    return text


def _parts(rules: Sequence[RulePart]) -> str:
    return "; ".join(rule_text(rule) for rule in rules)


def _business_days(rule: BusinessDaysRule) -> str:
    week = "" if rule.weekdays == WORKING_WEEK else f", {','.join(rule.weekdays)}"
    holidays = f", {len(rule.holidays)} holidays" if rule.holidays else ""
    return f"{_chosen(rule)} at {_times(rule.at)}{week}{holidays}"


def _chosen(rule: BusinessDaysRule) -> str:
    months = f" of month {_numbers(rule.months)}" if rule.months else ""
    if rule.nth:
        return f"business day {_numbers(rule.nth)}{months or ' of the month'}"
    if rule.days:
        return f"day {_numbers(rule.days)}{months} {_ROLLS[rule.roll]}"
    return f"business days{months}"


def _days(rule: DaysRule) -> str:
    dates = [day.isoformat() for day in rule.dates]
    named = dates if len(dates) <= _MOST_NAMED else [f"{len(dates)} dates"]
    hours = [f"{_time(rule.since or time.min)}-{_time(rule.until or time.min)}"]
    words = [
        ",".join(rule.weekdays),
        f"month {_numbers(rule.months)}" if rule.months else "",
        ",".join(named),
        *(hours if rule.since or rule.until else ()),
    ]
    return " ".join(word for word in words if word)


def _numbers(numbers: Iterable[int]) -> str:
    return ",".join(str(number) for number in numbers)


def _times(times: Iterable[time]) -> str:
    return ",".join(_time(at) for at in times)


def _time(at: time) -> str:
    return f"{at:%H:%M:%S}".removesuffix(":00")
