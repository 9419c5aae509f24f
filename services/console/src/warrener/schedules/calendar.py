"""Queries to the scheduler's calendar, a process: the command holds no logic of the services."""

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import Any, NamedTuple

from warrener.errors import CommandError, ExitCode
from warrener_contracts.events import SchedulePutData

_CALENDAR = "warrener_scheduler.calendar"
_LINT = "warrener_scheduler.calendar.lint"


def preview_ticks(
    definition: SchedulePutData, count: int, put_at: datetime | None = None
) -> list[dict[str, Any]]:
    """The next ticks and the clock changes between them. Raises CommandError if the rule never ticks."""
    found: list[dict[str, Any]] = _run_calendar(
        _CALENDAR, {**_schedule_fields(definition, put_at), "count": count}
    )
    return found


def find_problems(schedules: Sequence[SchedulePutData]) -> list[str | None]:
    """For each schedule the reason why a scheduler would refuse it, or None."""
    if not schedules:
        return []
    documents = [definition.model_dump(mode="json", exclude_none=True) for definition in schedules]
    found: list[str | None] = _run_calendar(_CALENDAR, {"check": documents})
    return found


def times_between(
    definition: SchedulePutData, put_at: datetime, begin: datetime, end: datetime, limit: int
) -> list[datetime]:
    """The nominal times from `begin` to `end`, both included, at most `limit`."""
    query = {
        "schedule": definition.model_dump(mode="json", exclude_none=True),
        "put_at": put_at.isoformat(),
        "begin": begin.isoformat(),
        "end": end.isoformat(),
        "most": limit,
    }
    return [datetime.fromisoformat(text) for text in _run_calendar(_CALENDAR, {"between": query})]


class LintTarget(NamedTuple):
    """A schedule, the time of its put, and the durations of its last jobs."""

    definition: SchedulePutData
    put_at: datetime | None = None
    durations: Sequence[timedelta] = ()


def lint_schedules(schedules: Sequence[LintTarget]) -> list[list[dict[str, Any]]]:
    """The warnings of each schedule, in order: `kind`, `text`, and `dates` if the warning has some."""
    queries = [
        {
            **_schedule_fields(one.definition, one.put_at),
            "durations": [span.total_seconds() for span in one.durations],
        }
        for one in schedules
    ]
    found: list[list[dict[str, Any]]] = _run_calendar(_LINT, queries)
    return found


def _schedule_fields(definition: SchedulePutData, put_at: datetime | None) -> dict[str, Any]:
    schedule = definition.model_dump(mode="json", exclude_none=True)
    return {"schedule": schedule, "put_at": None if put_at is None else put_at.isoformat()}


def _run_calendar(module: str, query: object) -> Any:
    if find_spec("warrener_scheduler") is None:
        raise CommandError(
            "expected the scheduler to be installed, whose calendar this needs, got no module",
            do="pip install warrener-scheduler",
        )
    done = subprocess.run(  # noqa: S603 - our own modules
        [sys.executable, "-m", module],
        input=json.dumps(query),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CommandError(done.stderr.strip() or "the calendar gave no answer", code=ExitCode.USAGE)
    return json.loads(done.stdout)
