"""From the options of `warrener schedule put` to a rule that waits for events."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from warrener.errors import CommandError, ExitCode

_CONDITION = re.compile(
    r"(?P<not>!?)(?P<path>[^\s=<>!]+)(?:(?P<sign>!=|<=|>=|=|<|>)(?P<value>.*))?", re.DOTALL
)
_CHECKS = {"=": "equals", "!=": "differs", "<": "less", "<=": "at_most", ">": "more", ">=": "at_least"}
_SCHEDULE = "schedule:"


def event_rule(key: str | None, where: Iterable[str], more: Mapping[str, Any]) -> dict[str, Any] | None:
    """The rule of --on-event; None without it. Raises CommandError."""
    if key is None:
        _require_option("--on-event", {"--where": [*where]} | _options(more))
        return None
    return {"kind": "event", "key": key, "where": [condition(text) for text in where], **more}


def after_rule(ends: Mapping[str, Sequence[str]], more: Mapping[str, Any]) -> dict[str, Any] | None:
    """The rule of --after-success and its like; None without them. Raises CommandError."""
    upstreams = [_upstream(name, end) for end, names in ends.items() for name in names]
    if not upstreams:
        _require_option("--after-success, --after-failure or --after-end", _options(more))
        return None
    return {"kind": "after", "upstreams": upstreams, **more}


def require_event_rule(event_as: str | None, *rules: Mapping[str, Any] | None) -> None:
    """Raises CommandError where an event is wanted that no rule brings."""
    if event_as is not None and not any(rules):
        _require_option("--on-event or --after-success", {"--event-as": event_as})


def condition(text: str) -> dict[str, Any]:
    """`data.country=DE`, `data.country=DE|FR`, `data.rows>=100`, `data.error`, `!data.error`. What is no JSON
    value is a text. Raises CommandError."""
    found = _CONDITION.fullmatch(text.strip())
    if found is None or (found["not"] and found["sign"]):
        raise CommandError(
            "expected a condition such as data.country=DE, data.country=DE|FR, data.rows>=100, data.error or "
            f"!data.error, got {text!r}",
            code=ExitCode.USAGE,
        )
    path, sign, value = found["path"], found["sign"], found["value"]
    if sign is None:
        return {"path": path, "check": "absent" if found["not"] else "exists"}
    if sign == "=" and "|" in value and not value.startswith('"'):
        return {"path": path, "check": "one_of", "value": [_value(one) for one in value.split("|")]}
    return {"path": path, "check": _CHECKS[sign], "value": _value(value)}


def _upstream(name: str, end: str) -> dict[str, str]:
    if name.startswith(_SCHEDULE):
        return {"schedule": name.removeprefix(_SCHEDULE), "end": end}
    return {"job_type": name, "end": end}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _options(more: Mapping[str, Any]) -> dict[str, Any]:
    return {f"--{name.replace('_', '-')}": value for name, value in more.items() if name != "event_as"}


def _require_option(wanted: str, options: Mapping[str, Any]) -> None:
    """An option that says nothing without another one is a mistake."""
    for name, value in options.items():
        if value:
            raise CommandError(f"expected {wanted} with {name}, got none", code=ExitCode.USAGE)
