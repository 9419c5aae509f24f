"""Celery beat schedules: loaded from an app, a Python file or JSON, and converted to schedules.

Warrener needs no Celery: the conversion knows its objects by their shapes. A module or a file is run as
Celery would run it, so its own imports must be installed, Celery's among them.

An entry is a mapping `{"task", "schedule", "args", "kwargs", "options"}`. Its schedule is a number of
seconds, a timedelta, one of Celery's objects, or, in JSON, a mapping: `{"crontab": {"minute": "0", …}}`,
`{"every": 30}`, `{"solar": {…}}`.
"""

import importlib
import inspect
import json
import runpy
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from warrener.errors import CommandError
from warrener.importers import ImportResult
from warrener.options import field_problem
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import CronRule, IntervalRule
from warrener_contracts.templates import escape_placeholders

ArgumentNames = Callable[[str], Sequence[str] | None]
"""The names of a task's arguments, in order; None for an unknown task."""

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
_SETTINGS = ("beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE")
_ZONES = ("timezone", "CELERY_TIMEZONE")


class NotImportable(ValueError):
    """An entry that cannot become a schedule, with the reason."""


def import_schedules(
    entries: Mapping[str, Any],
    *,
    timezone: str = "UTC",
    prefix: str = "",
    names_of: ArgumentNames = lambda _: None,
) -> ImportResult:
    """Convert the entries. `timezone` is that of their crontabs."""
    found = ImportResult()
    for name, entry in entries.items():
        notes = list[str]()
        try:
            found.add(name, _schedule(f"{prefix}{name}", entry, timezone, names_of, notes))
        except NotImportable as error:
            found.leave_out(name, str(error))
        except ValidationError as error:
            found.leave_out(name, field_problem(error.errors()[0]))
        else:
            for note in notes:
                found.differ(name, note)
    return found


def _schedule(
    name: str, raw: Any, timezone: str, names_of: ArgumentNames, notes: list[str]
) -> SchedulePutData:
    entry = _mapping(raw)
    task = str(entry.get("task", ""))
    if entry.get("enabled") is False:
        raise NotImportable("disabled")
    rule = _parse_rule(entry.get("schedule"))
    options = _mapping(entry.get("options"))
    for option in sorted(options.keys() - _KNOWN_OPTIONS):
        note = f"options.{option}={options[option]!r:.60}: no counterpart"
        if option == "expires":
            what_decides = "jobs do not expire; misfire and grace decide about late ticks"
            note = f"expires={options[option]}: {what_decides}"
        notes.append(note)
    return SchedulePutData(
        name=_as_name(name),
        rule=rule,
        timezone=timezone if isinstance(rule, CronRule) else "UTC",
        job_type=task,
        arguments=escape_placeholders(_arguments(task, entry, names_of)),
        queue=options.get("queue"),
    )


def _as_name(name: str) -> str:
    """Replace other characters than those of words by dashes: a schedule's name is part of routing keys."""
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
            f"positional arguments {args!r:.60}: their names are unknown; give them as kwargs, or import "
            "from MODULE:app, where the task is known"
        )
    if len(names) < len(args) or set(names[: len(args)]) & kwargs.keys():
        raise NotImportable(f"positional arguments {args!r:.60}: {task} takes {', '.join(names) or 'none'}")
    return dict(zip(names, args, strict=False)) | kwargs


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


# -- rules -------------------------------------------------------------------------------------------------


def _parse_rule(raw: Any) -> CronRule | IntervalRule:
    """Convert a Celery schedule. Raises NotImportable, or ValidationError, for anything else."""
    try:
        return _convert_rule(raw)
    except (NotImportable, ValidationError):
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise NotImportable(f"expected a Celery schedule, got {raw!r:.80}: {error}") from None


def _convert_rule(raw: Any) -> CronRule | IntervalRule:
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
        raise NotImportable(f"solar({getattr(raw, 'event', '?')}): rules by the sun do not exist")
    run_every = getattr(raw, "run_every", None)
    if isinstance(run_every, timedelta):
        return _interval(run_every)
    raise NotImportable(f"expected crontab, a timedelta or seconds, got {kind}")


def _of_json(raw: Mapping[str, Any]) -> CronRule | IntervalRule:
    if "solar" in raw:
        raise NotImportable("solar: rules by the sun do not exist")
    if "crontab" in raw:
        return _crontab(_mapping(raw["crontab"]))
    if raw.keys() & _FIELDS.keys():
        return _crontab(raw)
    if "every" in raw:
        return _interval(timedelta(**{str(raw.get("period", "seconds")): raw["every"]}))
    raise NotImportable(f"expected crontab or every, got {', '.join(map(str, raw)) or 'nothing'}")


def _interval(every: timedelta) -> CronRule | IntervalRule:
    if every <= timedelta(0):
        raise NotImportable(f"expected an interval, got {every}")
    return IntervalRule(every=every)


def _crontab(raw: Mapping[str, Any]) -> CronRule | IntervalRule:
    fields_text = {name: _field(name, raw.get(name, "*")) for name in _FIELDS}
    if fields_text["day_of_month"] != "*" and fields_text["day_of_week"] != "*":
        raise NotImportable(
            "day_of_month and day_of_week: Celery requires both to match, cron rules either; choose one"
        )
    return CronRule(expression=" ".join(fields_text.values()))


def _field(name: str, raw: Any) -> str:
    """Convert one field. Ranges past the end (`22-2`), which cron rules lack, become lists."""
    if isinstance(raw, str):
        return ",".join(_part(name, part) for part in raw.replace(" ", "").split(","))
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
    """The number of `sunday` or `jan`; any other word unchanged."""
    words = _WORDS.get(name, ())
    short = word.lower()[:3]
    if short in words:
        return str(words.index(short) + _FIELDS[name][0])
    return word


# -- loading -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BeatSchedule:
    """The entries of a beat schedule, before their conversion."""

    entries: Mapping[str, Any]
    timezone: str | None = None
    names_of: ArgumentNames = lambda _: None


def read_json(path: Path) -> BeatSchedule:
    """Read a JSON object of entries, or one with `beat_schedule` and `timezone`. Raises CommandError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CommandError(f"expected a JSON object of beat entries in {path}, got: {error}") from error
    if not isinstance(found, dict):
        raise CommandError(f"expected a JSON object of beat entries in {path}, got {found!r:.60}")
    document = cast("dict[str, Any]", found)
    if not any(name in document for name in _SETTINGS):
        return BeatSchedule(document)
    return _of_settings(document, str(path))


def load_python(target: str) -> BeatSchedule:
    """Load the app or the settings of `MODULE:app`, `MODULE` or `FILE.py`. Raises CommandError."""
    name, attribute = (target, "") if target.endswith(".py") else target.partition(":")[::2]
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = runpy.run_path(name) if name.endswith(".py") else vars(importlib.import_module(name))
    except Exception as error:
        raise CommandError(
            f"expected to run {target}, got {type(error).__name__}: {error}",
            do="run this where its imports are installed, Celery's among them, or write the entries as "
            "FILE.json",
        ) from error
    if not attribute:
        app = next((value for value in found.values() if _is_app(value)), None)
    elif not _is_app(app := found.get(attribute)):
        raise CommandError(f"expected a Celery app as {target}, got {app!r:.80}")
    return _of_settings(found, target) if app is None else _of_app(app, target)


def _is_app(value: Any) -> bool:
    return hasattr(value, "conf") and hasattr(value, "tasks") and hasattr(value.conf, "beat_schedule")


def _of_app(app: Any, target: str) -> BeatSchedule:
    settings = {"beat_schedule": app.conf.beat_schedule, "timezone": app.conf.timezone}
    found = _of_settings(settings, target)

    def names_of(task: str) -> Sequence[str] | None:
        known = app.tasks.get(task)
        return None if known is None else list(inspect.signature(known.run).parameters)

    return BeatSchedule(found.entries, found.timezone, names_of)


def _of_settings(settings: Mapping[str, Any], target: str) -> BeatSchedule:
    entries = next((settings[name] for name in _SETTINGS if settings.get(name)), None)
    if not isinstance(entries, Mapping):
        raise CommandError(f"expected a mapping {' or '.join(_SETTINGS)} in {target}, got {entries!r:.60}")
    zone = next((settings[name] for name in _ZONES if settings.get(name)), None)
    return BeatSchedule(cast("Mapping[str, Any]", entries), None if zone is None else str(zone))
