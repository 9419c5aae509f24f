"""Schedules, their rules in words, their ticks, and plans of changes, as tables and lines. Pure."""

from collections.abc import Iterable, Sequence
from datetime import time
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from warrener.render.screen import table
from warrener.render.times import span
from warrener.render.tones import Tone
from warrener_contracts import schedule_rules, triggers
from warrener_contracts.schedule_words import TickStatus
from warrener_contracts.topology import EVENTS

if TYPE_CHECKING:
    from warrener.schedules.calendar import UpcomingTick

TICK_TONES = {
    **dict.fromkeys((TickStatus.FIRED, TickStatus.CAUGHT_UP), Tone.GOOD),
    **dict.fromkeys((TickStatus.TRIGGERED, TickStatus.WAITING), Tone.LIVE),
    TickStatus.COALESCED: Tone.SOFT,
    TickStatus.SKIPPED: Tone.WARNING,
}
_MAX_DATES_SHOWN = 3
_CONVENTIONS = {
    schedule_rules.BusinessDayConvention.SKIP: "if it is a business day",
    schedule_rules.BusinessDayConvention.BEFORE: "or the business day before",
    schedule_rules.BusinessDayConvention.AFTER: "or the business day after",
    schedule_rules.BusinessDayConvention.NEAREST: "or the nearest business day",
}
_OPERATORS = {
    triggers.ConditionOperator.EQUALS: "=",
    triggers.ConditionOperator.DIFFERS: "!=",
    triggers.ConditionOperator.LESS: "<",
    triggers.ConditionOperator.AT_MOST: "<=",
    triggers.ConditionOperator.MORE: ">",
    triggers.ConditionOperator.AT_LEAST: ">=",
}
_UPSTREAM_ENDS = {
    triggers.UpstreamEnd.SUCCEEDED: "succeeded",
    triggers.UpstreamEnd.FAILED: "failed",
    triggers.UpstreamEnd.FINISHED: "ended",
}


def preview_table(ticks: "Iterable[UpcomingTick]") -> Table:
    """The next ticks by the clock of the schedule's zone, with the clock changes between them."""
    made = table("tick", "utc", "clock change")
    for tick in ticks:
        made.add_row(
            tick.wall, f"{tick.at:%Y-%m-%dT%H:%M:%S}Z", Text(tick.clock_change, style="warning", no_wrap=True)
        )
    return made


# -- rules -------------------------------------------------------------------------------------------------


def rule_text(rule: schedule_rules.Rule | schedule_rules.RulePart) -> str:
    """A rule in a few words."""
    match rule:
        case schedule_rules.CronRule(expression=expression):
            text = expression
        case schedule_rules.IntervalRule(every=every):
            text = f"every {span(every)}"
        case schedule_rules.OnceRule(at=at):
            text = "once" if at is None else f"once at {at:%Y-%m-%d %H:%M:%S}"
        case schedule_rules.BusinessDaysRule():
            text = _business_days(rule)
        case schedule_rules.DaysRule():
            text = _days(rule)
        case schedule_rules.AnyOfRule():
            text = f"any of ({_parts(rule.rules)})"
        case schedule_rules.AllOfRule():
            text = f"all of ({_parts(rule.rules)})"
        case schedule_rules.ExceptRule():
            text = f"{rule_text(rule.rule)} except ({_parts(rule.without)})"
        case triggers.EventRule():
            by = "" if rule.exchange == EVENTS else f" by {rule.exchange}"
            where = "".join(f", {_condition(one)}" for one in rule.where)
            quiet = "" if rule.debounce is None else f", once quiet for {span(rule.debounce)}"
            text = f"on {rule.key}{by}{where}{quiet}"
        case triggers.AfterRule():
            several = "" if rule.within is None else f" within {span(rule.within)}"
            text = f"after {' and '.join(map(_upstream, rule.upstreams))}{several}"
    return text


def _parts(rules: Sequence[schedule_rules.RulePart]) -> str:
    return "; ".join(map(rule_text, rules))


def _business_days(rule: schedule_rules.BusinessDaysRule) -> str:
    week = "" if rule.weekdays == schedule_rules.WORKING_WEEK else f", {','.join(rule.weekdays)}"
    holidays = f", {len(rule.holidays)} holidays" if rule.holidays else ""
    return f"{_chosen(rule)} at {','.join(map(_time, rule.at))}{week}{holidays}"


def _chosen(rule: schedule_rules.BusinessDaysRule) -> str:
    months = f" of month {_numbers(rule.months)}" if rule.months else ""
    if rule.nth:
        return f"business day {_numbers(rule.nth)}{months or ' of the month'}"
    if rule.days:
        return f"day {_numbers(rule.days)}{months} {_CONVENTIONS[rule.business_day_convention]}"
    return f"business days{months}"


def _days(rule: schedule_rules.DaysRule) -> str:
    dates = [day.isoformat() for day in rule.dates]
    named = dates if len(dates) <= _MAX_DATES_SHOWN else [f"{len(dates)} dates"]
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


def _time(at: time) -> str:
    return f"{at:%H:%M:%S}".removesuffix(":00")


# -- rules that wait for events ----------------------------------------------------------------------------


def no_times_line(rule: schedule_rules.Rule) -> Text | None:
    """Why a rule has no times to show; None if it has times."""
    if not isinstance(rule, triggers.EventRule | triggers.AfterRule):
        return None
    return Text(f"It has no times of its own: it ticks {_whenever(rule)}.")


def _whenever(rule: triggers.TriggerRule) -> str:
    match rule:
        case triggers.EventRule():
            passing = " and passes " + ", ".join(map(_condition, rule.where)) if rule.where else ""
            came = f"a message comes by {rule.exchange} under {rule.key}{passing}"
            if rule.debounce is None:
                return f"whenever {came}"
            quiet, max_wait = span(rule.debounce), span(rule.effective_max_wait)
            return f"once {came}, and none for {quiet} since, or {max_wait} after the first"
        case triggers.AfterRule(upstreams=(only,)):
            return f"whenever a job of {_upstream(only)}"
        case triggers.AfterRule():
            each = " and ".join(f"one of {_upstream(one)}" for one in rule.upstreams)
            return f"whenever {each}" + ("" if rule.within is None else f", all within {span(rule.within)}")


def _upstream(upstream: triggers.Upstream) -> str:
    return f"{upstream.name} {_UPSTREAM_ENDS[upstream.end]}"


def _condition(condition: triggers.Condition) -> str:
    match condition.check:
        case triggers.ConditionOperator.EXISTS:
            return condition.path
        case triggers.ConditionOperator.ABSENT:
            return f"!{condition.path}"
        case triggers.ConditionOperator.ONE_OF:
            return f"{condition.path}={'|'.join(map(str, condition.value))}"
        case check:
            return f"{condition.path}{_OPERATORS[check]}{condition.value}"
