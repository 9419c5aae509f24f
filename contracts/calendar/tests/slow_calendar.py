"""An independent, slow statement of when a rule ticks: every wall minute of some days is looked at."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from warrener_contracts.schedule_rules import DstGap, DstOverlap

MINUTE = timedelta(minutes=1)
Span = tuple[datetime, datetime]
Reading = tuple[datetime, datetime]
Choice = tuple[DstGap, DstOverlap]


def slow_walls(
    ticks_at: Callable[[datetime], bool], span: Span, beyond: timedelta = timedelta(days=2)
) -> list[datetime]:
    """The wall minutes that may lie in a span of UTC, in whatever zone, and at which a rule ticks. No clock
    is further from UTC, nor jumps further, than `beyond`."""
    begin, end = (moment.replace(tzinfo=None) for moment in span)
    wall, stop = begin - beyond, end + beyond
    found: list[datetime] = []
    while wall < stop:
        if ticks_at(wall):
            found.append(wall)
        wall += MINUTE
    return found


def slow_ticks(zone: ZoneInfo, walls: Iterable[datetime], span: Span, choices: Choice) -> list[datetime]:
    """The moments of these wall times that lie in the span, by PEP 495 alone."""
    return chosen(readings(zone, walls), span, choices)


def readings(zone: ZoneInfo, walls: Iterable[datetime]) -> list[Reading]:
    """Each wall time read by the clock before a change (fold=0) and by the one after it (fold=1)."""
    aware = (wall.replace(tzinfo=zone) for wall in walls)
    return [(wall.astimezone(UTC), wall.replace(fold=1).astimezone(UTC)) for wall in aware]


def chosen(found: Iterable[Reading], span: Span, choices: Choice) -> list[datetime]:
    begin, end = span
    moments = {moment for early, late in found for moment in _of_reading(early, late, *choices)}
    return sorted(moment for moment in moments if begin < moment < end)


def _of_reading(early: datetime, late: datetime, skipped: DstGap, repeated: DstOverlap) -> Iterator[datetime]:
    if early == late:
        yield early
    elif early > late:  # the clock never shows it
        if skipped is DstGap.AFTER:
            yield early
        elif skipped is DstGap.BEFORE:
            yield late
    else:
        if repeated is not DstOverlap.LAST:
            yield early
        if repeated is not DstOverlap.FIRST:
            yield late


@cache
def changes(zone: ZoneInfo, year: int) -> list[datetime]:
    """Hours of a year in which the clock changes, found by looking at each."""
    hour, found = datetime(year, 1, 1, tzinfo=UTC), list[datetime]()
    before = hour.astimezone(zone).utcoffset()
    while hour.year == year:
        following = hour + timedelta(hours=1)
        after = following.astimezone(zone).utcoffset()
        if after != before:
            found.append(hour)
        hour, before = following, after
    return found
