"""The calendar's answers for the command and the console; a rule that it refuses is a CommandError."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from warrener.errors import UsageError
from warrener_calendar import ticks
from warrener_contracts.events import SchedulePutData

_WHOLE_MINUTE = re.compile(r"(\d\d:\d\d):00\b")


class UpcomingTick(BaseModel):
    """A tick to come, or a change of the clock before it (`clock_change` says which, and has no `wall`)."""

    at: datetime
    wall: str = ""
    clock_change: str = ""
    repeated: bool = False  # its local time comes twice on that day


def preview_ticks(
    definition: SchedulePutData, count: int, put_at: datetime | None = None, after: datetime | None = None
) -> list[UpcomingTick]:
    """Return the next ticks, those later than `after`, and the clock changes between them.

    Without `put_at` the schedule is about to be put. Raises CommandError if a scheduler would refuse it.
    """
    now = datetime.now(UTC)
    with _refusals():
        ticks.check(definition, put_at or now)
        entries = ticks.preview(definition, put_at or now, after or now, count)
    found: list[UpcomingTick] = []
    for entry in entries:
        at, change = datetime.fromisoformat(entry["at"]), entry.get("clock_change", "")
        local = at.astimezone(ZoneInfo(definition.timezone))
        twice = local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()
        wall = _WHOLE_MINUTE.sub(r"\1", entry.get("wall", ""))
        found.append(UpcomingTick(at=at, wall=wall, clock_change=change, repeated=twice and not change))
    return found


def find_problem(definition: SchedulePutData) -> str | None:
    """Return why a scheduler would refuse the schedule, or None."""
    try:
        ticks.check(definition, datetime.now(UTC))
    except ValueError as error:
        return str(error)
    return None


def times_between(
    definition: SchedulePutData, put_at: datetime, begin: datetime, end: datetime, limit: int
) -> list[datetime]:
    """Return the nominal times from `begin` to `end`, both included, at most `limit`."""
    with _refusals():
        return ticks.times_between(definition, put_at, begin, end, limit)


@contextmanager
def _refusals() -> Generator[None]:
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error
