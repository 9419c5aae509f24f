"""Where the entries of a beat schedule come from: an app in a module, a file of Python, or JSON.

A module or a file is run, as Celery would run it: its own imports must be there, Celery's among them.
Warrener itself needs no Celery.
"""

import importlib
import inspect
import json
import runpy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from warrener.errors import CommandError
from warrener.scheduling.celery_beat import ArgumentNames

_SETTINGS = ("beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE")
_ZONES = ("timezone", "CELERY_TIMEZONE")


def _no_names(_: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class BeatSchedule:
    """A beat schedule as it was found."""

    entries: Mapping[str, Any]
    timezone: str | None = None
    names_of: ArgumentNames = _no_names


def read_json(path: Path) -> BeatSchedule:
    """A JSON object of entries, or one with `beat_schedule` and `timezone`. Raises CommandError."""
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
    """`MODULE:app`, `MODULE` or `FILE.py`: an app, or settings by their usual names. Raises CommandError."""
    if target.endswith(".py"):
        return _of_settings(_run(target), target)
    name, _, attribute = target.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(name)
    except Exception as error:
        raise _cannot_run(target, error) from error
    if attribute:
        return _of_app(_attribute(module, attribute, target), target)
    app = next((value for value in vars(module).values() if _is_app(value)), None)
    return _of_settings(vars(module), target) if app is None else _of_app(app, target)


def _run(target: str) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = runpy.run_path(target)
    except Exception as error:
        raise _cannot_run(target, error) from error
    app = next((value for value in found.values() if _is_app(value)), None)
    return found if app is None else {"beat_schedule": app.conf.beat_schedule, "timezone": app.conf.timezone}


def _cannot_run(target: str, error: Exception) -> CommandError:
    return CommandError(
        f"expected to run {target}, got {type(error).__name__}: {error}",
        do="run this where its imports are installed, Celery's among them, or write the entries as FILE.json",
    )


def _attribute(module: object, attribute: str, target: str) -> Any:
    found = getattr(module, attribute, None)
    if not _is_app(found):
        raise CommandError(f"expected a Celery app as {target}, got {found!r:.80}")
    return found


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
