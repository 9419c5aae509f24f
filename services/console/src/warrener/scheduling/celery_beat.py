"""A Celery beat schedule as schedules. Pure; knows the shapes of Celery's objects and needs none of them.

An entry is a mapping `{"task", "schedule", "args", "kwargs", "options"}`. Its schedule is a number of
seconds, a timedelta, one of Celery's objects, or, in JSON, a mapping: `{"crontab": {"minute": "0", …}}`,
`{"every": 30}`, `{"solar": {…}}`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, cast

from pydantic import ValidationError

from warrener.scheduling.import_result import ImportIssue, ImportResult, Loss
from warrener.scheduling.template_escape import escape_placeholders
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import CronRule, IntervalRule

ArgumentNames = Callable[[str], Sequence[str] | None]
"""The names of a task's arguments, in their order; None: nobody knows the task."""

_FIELDS: Mapping[str, tuple[int, int]] = {
    "minute": (0, 59),
    "hour": (0, 23),
    "day_of_month": (1, 31),
    "month_of_year": (1, 12),
    "day_of_week": (0, 6),
}
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WORDS = {"day_of_week": _DAYS, "month_of_year": _MONTHS}
_KNOWN_OPTIONS = frozenset({"queue"})


class NotImportable(ValueError):
    """Why an entry cannot become a schedule."""


class _ConvertedRule(NamedTuple):
    rule: CronRule | IntervalRule
    note: str = ""


def import_schedules(
    entries: Mapping[str, Any],
    *,
    timezone: str = "UTC",
    prefix: str = "",
    names_of: ArgumentNames = lambda _: None,
) -> ImportResult:
    """The schedules of these entries. Celery's crontab goes by `timezone`."""
    schedules, origins, issues = list[SchedulePutData](), list[str](), list[ImportIssue]()
    for name, entry in entries.items():
        notes = list[str]()
        try:
            definition = _schedule(f"{prefix}{name}", entry, timezone, names_of, notes)
        except NotImportable as error:
            issues.append(ImportIssue(name, Loss.LEFT_OUT, str(error)))
            continue
        schedules.append(definition)
        origins.append(name)
        issues += [ImportIssue(name, Loss.DIFFERS, note) for note in notes]
    return ImportResult(tuple(schedules), tuple(origins), tuple(issues))


def _schedule(
    name: str, raw: Any, timezone: str, names_of: ArgumentNames, notes: list[str]
) -> SchedulePutData:
    entry = _mapping(raw)
    task = str(entry.get("task", ""))
    if entry.get("enabled") is False:
        raise NotImportable("it is not enabled")
    when = _parse_rule(entry.get("schedule"))
    if when.note:
        notes.append(when.note)
    options = _mapping(entry.get("options"))
    notes += [_option(option, options[option]) for option in sorted(options.keys() - _KNOWN_OPTIONS)]
    fields = {
        "name": _as_name(name),
        "rule": when.rule,
        "timezone": timezone if isinstance(when.rule, CronRule) else "UTC",
        "job_type": task,
        "arguments": escape_placeholders(_arguments(task, entry, names_of)),
        "queue": options.get("queue"),
    }
    try:
        return SchedulePutData.model_validate(fields)
    except ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: ValidationError) -> NotImportable:
    found = error.errors(include_url=False)[0]
    place = ".".join(map(str, found["loc"]))
    return NotImportable(f"{place}: {found['msg']}, got {found['input']!r:.80}")


def _option(option: str, value: Any) -> str:
    if option == "expires":
        return f"expires={value}: a job waits as long as it must; misfire and grace say what a late tick does"
    return f"options.{option}={value!r:.60}: it has no counterpart"


def _as_name(name: str) -> str:
    """A schedule's name becomes part of a routing key: other characters than those of words are dashes."""
    words = (
        "".join(one if one.isascii() and (one.isalnum() or one in "_-") else "-" for one in word)
        for word in name.split(".")
    )
    return ".".join(word.strip("-") or "x" for word in words)


def _arguments(task: str, entry: Mapping[str, Any], names_of: ArgumentNames) -> dict[str, Any]:
    kwargs = dict(_mapping(entry.get("kwargs")))
    args = list(entry.get("args") or ())
    if not args:
        return kwargs
    names = names_of(task)
    if names is None:
        raise NotImportable(
            f"positional arguments {args!r:.60}: nobody knows their names; give them as kwargs, or import "
            "from MODULE:app, where the task is known"
        )
    if len(names) < len(args) or set(names[: len(args)]) & kwargs.keys():
        raise NotImportable(f"positional arguments {args!r:.60}: {task} takes {', '.join(names) or 'none'}")
    return dict(zip(names, args, strict=False)) | kwargs


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


# -- when --------------------------------------------------------------------------------------------------


def _parse_rule(raw: Any) -> _ConvertedRule:
    """The same as `_convert_rule`; what is none of Celery's is told like all that is not carried."""
    try:
        return _convert_rule(raw)
    except NotImportable:
        raise
    except ValidationError as error:
        raise _invalid(error) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise NotImportable(f"expected a schedule of Celery's, got {raw!r:.80}: {error}") from None


def _convert_rule(raw: Any) -> _ConvertedRule:
    """Of what Celery takes as a schedule."""
    if isinstance(raw, bool) or raw is None:
        raise NotImportable(f"expected a schedule, got {raw!r}")
    if isinstance(raw, int | float):
        return _interval(timedelta(seconds=raw))
    if isinstance(raw, timedelta):
        return _interval(raw)
    if isinstance(raw, Mapping):
        return _of_json(cast("Mapping[str, Any]", raw))
    kind = type(raw).__name__
    if kind == "crontab":
        return _crontab({name: getattr(raw, f"_orig_{name}") for name in _FIELDS})
    if kind == "solar":
        raise NotImportable(f"solar({getattr(raw, 'event', '?')}): there is no rule by the sun")
    run_every = getattr(raw, "run_every", None)
    if isinstance(run_every, timedelta):
        return _interval(run_every)
    raise NotImportable(f"expected crontab, a timedelta or seconds, got {kind}")


def _of_json(raw: Mapping[str, Any]) -> _ConvertedRule:
    if "solar" in raw:
        raise NotImportable("solar: there is no rule by the sun")
    if "crontab" in raw:
        return _crontab(_mapping(raw["crontab"]))
    if raw.keys() & _FIELDS.keys():
        return _crontab(raw)
    if "every" in raw:
        return _interval(timedelta(**{str(raw.get("period", "seconds")): raw["every"]}))
    raise NotImportable(f"expected crontab or every, got {', '.join(map(str, raw)) or 'nothing'}")


def _interval(every: timedelta) -> _ConvertedRule:
    if every <= timedelta(0):
        raise NotImportable(f"expected an interval, got {every}")
    return _ConvertedRule(IntervalRule(every=every))


def _crontab(raw: Mapping[str, Any]) -> _ConvertedRule:
    """Where both days are restricted Celery wants both, and cron either: that cannot be said."""
    fields_text = {name: _field(name, raw.get(name, "*")) for name in _FIELDS}
    if fields_text["day_of_month"] != "*" and fields_text["day_of_week"] != "*":
        raise NotImportable(
            "day_of_month and day_of_week: Celery wants both to match, a cron rule either; choose one of them"
        )
    return _ConvertedRule(CronRule(expression=" ".join(fields_text.values())))


def _field(name: str, raw: Any) -> str:
    """One field; ranges that go past the end (`22-2`), which cron does not know, are listed."""
    if isinstance(raw, str):
        parts = raw.replace(" ", "").split(",")
        return ",".join(_part(name, part) for part in parts)
    if isinstance(raw, Iterable):
        return ",".join(str(one) for one in sorted(cast("Iterable[int]", raw)))
    return str(raw)


def _part(name: str, part: str) -> str:
    span, _, step = part.partition("/")
    first, dash, last = span.partition("-")
    if not dash:
        return f"{_number(name, span)}/{step}" if step else _number(name, span)
    low, high = _FIELDS[name]
    begin, end = _number(name, first), _number(name, last)
    if not (begin.isdigit() and end.isdigit()) or int(begin) <= int(end):
        return f"{begin}-{end}" + (f"/{step}" if step else "")
    listed = [*range(int(begin), high + 1), *range(low, int(end) + 1)]
    return ",".join(map(str, listed[:: int(step) if step else 1]))


def _number(name: str, word: str) -> str:
    """The number of `sunday` or `jan`; anything else as it is."""
    words = _WORDS.get(name, ())
    short = word.lower()[:3]
    if short in words:
        return str(words.index(short) + _FIELDS[name][0])
    return word
