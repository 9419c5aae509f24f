"""What the scheduler's calendar says of a schedule: it is asked as a process, because the command holds no
logic of the services."""

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from importlib.util import find_spec
from typing import Any

from warrener.exits import CommandError, Exit
from warrener_contracts.events import SchedulePutData

_CALENDAR = "warrener_scheduler.calendar"
_QUESTIONS = "warrener_scheduler.calendar.questions"


def preview_of(asked: SchedulePutData, count: int, put_at: datetime | None = None) -> list[dict[str, Any]]:
    """Its next ticks and the clock changes between them. Raises CommandError where it would never tick."""
    question = {
        "schedule": asked.model_dump(mode="json", exclude_none=True),
        "count": count,
        "put_at": None if put_at is None else put_at.isoformat(),
    }
    found: list[dict[str, Any]] = _answer(_CALENDAR, question)
    return found


def problems_of(schedules: Sequence[SchedulePutData]) -> list[str | None]:
    """What keeps each of these from ever ticking; None: nothing."""
    if not schedules:
        return []
    told = [asked.model_dump(mode="json", exclude_none=True) for asked in schedules]
    found: list[str | None] = _answer(_QUESTIONS, {"check": told})
    return found


def times_between(
    asked: SchedulePutData, put_at: datetime, begin: datetime, end: datetime, most: int
) -> list[datetime]:
    """Its nominal times from `begin` to `end`, both included, at most so many."""
    question = {
        "schedule": asked.model_dump(mode="json", exclude_none=True),
        "put_at": put_at.isoformat(),
        "begin": begin.isoformat(),
        "end": end.isoformat(),
        "most": most,
    }
    return [datetime.fromisoformat(text) for text in _answer(_QUESTIONS, {"between": question})]


def _answer(module: str, question: dict[str, Any]) -> Any:
    if find_spec("warrener_scheduler") is None:
        raise CommandError(
            "expected the scheduler to be installed, which knows the calendar, got no module",
            do="pip install warrener-scheduler",
        )
    done = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", module],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CommandError(done.stderr.strip() or "the calendar gave no answer", code=Exit.USAGE)
    return json.loads(done.stdout)
