"""What the scheduler's calendar says of a schedule: it is asked as a process, because the command holds no
logic of the services."""

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
    """Its next ticks and the clock changes between them. Raises CommandError where it would never tick."""
    found: list[dict[str, Any]] = _run_calendar(
        _CALENDAR, {**_schedule_fields(definition, put_at), "count": count}
    )
    return found


def find_problems(schedules: Sequence[SchedulePutData]) -> list[str | None]:
    """Why each of these would be refused, such as one that never ticks; None: it would not."""
    if not schedules:
        return []
    documents = [definition.model_dump(mode="json", exclude_none=True) for definition in schedules]
    found: list[str | None] = _run_calendar(_CALENDAR, {"check": documents})
    return found


def times_between(
    definition: SchedulePutData, put_at: datetime, begin: datetime, end: datetime, limit: int
) -> list[datetime]:
    """Its nominal times from `begin` to `end`, both included, at most so many."""
    question = {
        "schedule": definition.model_dump(mode="json", exclude_none=True),
        "put_at": put_at.isoformat(),
        "begin": begin.isoformat(),
        "end": end.isoformat(),
        "most": limit,
    }
    return [datetime.fromisoformat(text) for text in _run_calendar(_CALENDAR, {"between": question})]


class LintTarget(NamedTuple):
    """A schedule, and what is known of it beside what its owner asked for."""

    definition: SchedulePutData
    put_at: datetime | None = None
    durations: Sequence[timedelta] = ()


def lint_schedules(schedules: Sequence[LintTarget]) -> list[list[dict[str, Any]]]:
    """What to warn of in each of these, in order: `kind`, `text`, and `dates` where it is about some."""
    questions = [
        {
            **_schedule_fields(one.definition, one.put_at),
            "durations": [span.total_seconds() for span in one.durations],
        }
        for one in schedules
    ]
    found: list[list[dict[str, Any]]] = _run_calendar(_LINT, questions)
    return found


def _schedule_fields(definition: SchedulePutData, put_at: datetime | None) -> dict[str, Any]:
    schedule = definition.model_dump(mode="json", exclude_none=True)
    return {"schedule": schedule, "put_at": None if put_at is None else put_at.isoformat()}


def _run_calendar(module: str, question: object) -> Any:
    if find_spec("warrener_scheduler") is None:
        raise CommandError(
            "expected the scheduler to be installed, which knows the calendar, got no module",
            do="pip install warrener-scheduler",
        )
    done = subprocess.run(  # noqa: S603 - our own modules
        [sys.executable, "-m", module],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CommandError(done.stderr.strip() or "the calendar gave no answer", code=ExitCode.USAGE)
    return json.loads(done.stdout)
