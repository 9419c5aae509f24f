"""An independent, slow statement of when a rule ticks: every wall minute of some days is looked at."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from warrener_contracts.rules import RepeatedHour, SkippedHour

MINUTE = timedelta(minutes=1)


def slow_moments(
    zone: ZoneInfo,
    minutes: frozenset[int],
    hours: frozenset[int],
    span: tuple[datetime, datetime],
    choices: tuple[SkippedHour, RepeatedHour],
) -> list[datetime]:
    """The ticks of `minutes hours * * *` in a span of UTC, by PEP 495 alone."""
    begin, end = span
    wall = (begin - timedelta(days=2)).replace(tzinfo=None)
    stop = (end + timedelta(days=2)).replace(tzinfo=None)
    found: set[datetime] = set()
    while wall < stop:
        if wall.minute in minutes and wall.hour in hours:
            found.update(_of_wall(wall.replace(tzinfo=zone), *choices))
        wall += MINUTE
    return sorted(moment for moment in found if begin < moment < end)


def _of_wall(wall: datetime, skipped: SkippedHour, repeated: RepeatedHour) -> Iterator[datetime]:
    early, late = (wall.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    if early == late:
        yield early
    elif early > late:  # the clock never shows it; fold=0 reads it by the clock before the change
        if skipped is SkippedHour.AFTER:
            yield early
        elif skipped is SkippedHour.BEFORE:
            yield late
    else:
        if repeated is not RepeatedHour.LAST:
            yield early
        if repeated is not RepeatedHour.FIRST:
            yield late


def changes(zone: ZoneInfo, year: int) -> list[datetime]:
    """Hours of a year in which the clock changes, found by looking at each."""
    hour, found = datetime(year, 1, 1, tzinfo=UTC), list[datetime]()
    while hour.year == year:
        following = hour + timedelta(hours=1)
        if hour.astimezone(zone).utcoffset() != following.astimezone(zone).utcoffset():
            found.append(hour)
        hour = following
    return found
