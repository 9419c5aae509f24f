"""What the scheduler's calendar says of a schedule: it is asked as a process, because the command holds no
logic of the services."""

import json
import subprocess
import sys
from datetime import datetime
from importlib.util import find_spec
from typing import Any

from warrener.exits import CommandError, Exit
from warrener_contracts.events import SchedulePutData

_CALENDAR = "warrener_scheduler.calendar"


def preview_of(asked: SchedulePutData, count: int, put_at: datetime | None = None) -> list[dict[str, Any]]:
    """Its next ticks and the clock changes between them. Raises CommandError where it would never tick."""
    if find_spec("warrener_scheduler") is None:
        raise CommandError(
            "expected the scheduler to be installed, which knows the calendar, got no module",
            do="pip install warrener-scheduler",
        )
    question = {
        "schedule": asked.model_dump(mode="json", exclude_none=True),
        "count": count,
        "put_at": None if put_at is None else put_at.isoformat(),
    }
    done = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", _CALENDAR],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CommandError(done.stderr.strip() or "the calendar gave no answer", code=Exit.USAGE)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
