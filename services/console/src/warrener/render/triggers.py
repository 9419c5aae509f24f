"""Rules that wait for events, in words."""

from rich.text import Text

from warrener.render.times import span
from warrener_contracts.schedule_rules import Rule
from warrener_contracts.topology import EVENTS
from warrener_contracts.triggers import (
    AfterRule,
    Condition,
    ConditionOperator,
    EventRule,
    TriggerRule,
    Upstream,
    UpstreamEnd,
)

_SIGNS = {
    ConditionOperator.EQUALS: "=",
    ConditionOperator.DIFFERS: "!=",
    ConditionOperator.LESS: "<",
    ConditionOperator.AT_MOST: "<=",
    ConditionOperator.MORE: ">",
    ConditionOperator.AT_LEAST: ">=",
}
_ENDS = {UpstreamEnd.SUCCEEDED: "succeeded", UpstreamEnd.FAILED: "failed", UpstreamEnd.FINISHED: "ended"}


def trigger_text(rule: TriggerRule) -> str:
    """A rule in a few words."""
    match rule:
        case EventRule():
            by = "" if rule.exchange == EVENTS else f" by {rule.exchange}"
            where = "".join(f", {_condition(one)}" for one in rule.where)
            quiet = "" if rule.debounce is None else f", once quiet for {span(rule.debounce)}"
            return f"on {rule.key}{by}{where}{quiet}"
        case AfterRule():
            several = "" if rule.within is None else f" within {span(rule.within)}"
            return f"after {' and '.join(map(_upstream, rule.upstreams))}{several}"


def no_times_line(rule: Rule) -> Text | None:
    """Why a rule has no times that could be shown; None where it has."""
    if not isinstance(rule, EventRule | AfterRule):
        return None
    return Text(f"It has no times of its own: it ticks {_whenever(rule)}.")


def _whenever(rule: TriggerRule) -> str:
    match rule:
        case EventRule():
            passing = " and passes " + ", ".join(map(_condition, rule.where)) if rule.where else ""
            came = f"a message comes by {rule.exchange} under {rule.key}{passing}"
            if rule.debounce is None:
                return f"whenever {came}"
            quiet, max_wait = span(rule.debounce), span(rule.max_wait)
            return f"once {came}, and none for {quiet} since, or {max_wait} after the first"
        case AfterRule(upstreams=(only,)):
            return f"whenever a job of {_upstream(only)}"
        case AfterRule():
            each = " and ".join(f"one of {_upstream(one)}" for one in rule.upstreams)
            return f"whenever {each}" + ("" if rule.within is None else f", all within {span(rule.within)}")


def _upstream(upstream: Upstream) -> str:
    return f"{upstream.name} {_ENDS[upstream.end]}"


def _condition(condition: Condition) -> str:
    match condition.check:
        case ConditionOperator.EXISTS:
            return condition.path
        case ConditionOperator.ABSENT:
            return f"!{condition.path}"
        case ConditionOperator.ONE_OF:
            return f"{condition.path}={'|'.join(map(str, condition.value))}"
        case check:
            return f"{condition.path}{_SIGNS[check]}{condition.value}"
