"""Other crons at clock changes: cronsim and croniter as they are, and a model of what Debian's
cron(8) says of itself. Jobs with neither @hourly nor a `*` in the hour or minute run soon after a change that
skips them, and not again in the time that is repeated; all others go by what the clock shows."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo

from contracts.calendar.tests.slow_calendar import Span
from croniter import croniter  # type: ignore[import-untyped]
from cronsim import CronSim

MINUTE = timedelta(minutes=1)
Other = Callable[[ZoneInfo, str, Span], list[datetime]]


def cronsim_ticks(zone: ZoneInfo, expression: str, span: Span) -> list[datetime]:
    """Return the ticks of cronsim, which gets an aware time."""
    return _between(span, CronSim(expression, span[0].astimezone(zone)))


def croniter_ticks(zone: ZoneInfo, expression: str, span: Span) -> list[datetime]:
    """Return the ticks of croniter, likewise."""
    times: Any = croniter(expression, span[0].astimezone(zone), ret_type=datetime)
    return _between(span, times)


def debian_ticks(zone: ZoneInfo, expression: str, walls: Iterable[datetime], span: Span) -> list[datetime]:
    """Return the ticks of Debian's cron as documented, from the wall minutes that its fields name."""
    fixed = is_fixed(expression)
    return _of_walls(zone, walls, span, late=fixed, twice=not fixed)


def croniter_model(zone: ZoneInfo, expression: str, walls: Iterable[datetime], span: Span) -> list[datetime]:
    """What croniter is seen to do: a skipped time runs at the change unless the hour is `*`, a repeated one
    twice."""
    return _of_walls(zone, walls, span, late=expression.split()[1] != "*", twice=True)


def is_fixed(expression: str) -> bool:
    """True if it runs at particular times, as Debian's cron sees it."""
    minute, hour = expression.split()[:2]
    return not (minute.startswith("*") or hour.startswith("*"))


def _of_walls(
    zone: ZoneInfo, walls: Iterable[datetime], span: Span, *, late: bool, twice: bool
) -> list[datetime]:
    found: set[datetime] = set()
    for wall in walls:
        early, other = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        if early > other:
            found |= {_shown_again(zone, wall)} if late else set()
        else:
            found |= {early, other} if twice else {early}
    return sorted(moment for moment in found if span[0] < moment < span[1])


def _shown_again(zone: ZoneInfo, wall: datetime) -> datetime:
    """The moment of the change that skips this wall time: the first minute that the clock shows after it."""
    while (moment := wall.replace(tzinfo=zone).astimezone(UTC)).astimezone(zone).replace(tzinfo=None) != wall:
        wall += MINUTE
    return moment


def _between(span: Span, times: Iterator[datetime]) -> list[datetime]:
    begin, end = span
    moments = takewhile(lambda moment: moment < end, (one.astimezone(UTC) for one in times))
    return [moment for moment in moments if moment > begin]
