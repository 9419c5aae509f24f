"""Rules as people write them in files and options, turned into the rules of the wire. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from warrener.options import json_or_text
from warrener_contracts.json_safety import is_array, is_object
from warrener_contracts.schedule_rules import expand_short_rule

_CONDITION = re.compile(
    r"(?P<not>!?)(?P<path>[^\s=<>!]+)(?:(?P<sign>!=|<=|>=|=|<|>)(?P<value>.*))?", re.DOTALL
)
_CHECKS = {"=": "equals", "!=": "differs", "<": "less", "<=": "at_most", ">": "more", ">=": "at_least"}
_SCHEDULE = "schedule:"


def expand_rule(fields: Mapping[str, Any]) -> Any:
    """Build the rule from `rule` or one short form (`cron`, `every`, `at`, `after`), and expand its texts.

    Conditions of an event rule may be texts such as `data.country=DE`, upstreams of an after rule names such
    as `flights.load` or `schedule:fares`. Raises ValueError.
    """
    rule = expand_short_rule(fields)
    if not is_object(rule):
        return rule
    if is_array(rule.get("where")):
        return {**rule, "where": [_expanded(one, condition) for one in rule["where"]]}
    if is_array(rule.get("upstreams")):
        return {**rule, "upstreams": [_expanded(one, upstream) for one in rule["upstreams"]]}
    return rule


def _expanded(value: Any, expand: Any) -> Any:
    return expand(value) if isinstance(value, str) else value


def condition(text: str) -> dict[str, Any]:
    """Parse `data.country=DE`, `data.country=DE|FR`, `data.rows>=100`, `data.error` or `!data.error`.

    A value that is not JSON is a text. Raises ValueError.
    """
    found = _CONDITION.fullmatch(text.strip())
    if found is None or (found["not"] and found["sign"]):
        raise ValueError(
            "expected a condition such as data.country=DE, data.country=DE|FR, data.rows>=100, data.error or "
            f"!data.error, got {text!r}"
        )
    path, sign, value = found["path"], found["sign"], found["value"]
    if sign is None:
        return {"path": path, "check": "absent" if found["not"] else "exists"}
    if sign == "=" and "|" in value and not value.startswith('"'):
        return {"path": path, "check": "one_of", "value": [json_or_text(one) for one in value.split("|")]}
    return {"path": path, "check": _CHECKS[sign], "value": json_or_text(value)}


def upstream(name: str) -> dict[str, str]:
    """The successful jobs of a job type, or of `schedule:NAME`."""
    if name.startswith(_SCHEDULE):
        return {"schedule": name.removeprefix(_SCHEDULE)}
    return {"job_type": name}


def without_holidays(rule: Any, days: Iterable[date]) -> Any:
    """The rule without ticks on these days: holidays of business days, an exclusion of any other rule."""
    holidays: Sequence[str] = sorted({day.isoformat() for day in days})
    if not holidays or not is_object(rule):
        return rule
    if rule.get("kind") == "business_days":
        return {**rule, "holidays": holidays}
    return {"kind": "except", "rule": rule, "without": [{"kind": "days", "dates": holidays}]}
