"""Wall times of a cron expression: a thin wrapper around cronsim that knows no zone.

cronsim alone treats clock changes as Debian's cron does. It gets wall times without a zone here, so that the
owner of a schedule chooses the treatment; `dst` applies the choice.
"""

import re
from calendar import monthrange, weekday
from collections.abc import Iterator
from copy import copy
from datetime import date, datetime
from functools import lru_cache
from types import MappingProxyType

from cronsim import CronSim, CronSimError

MACROS = MappingProxyType(
    {
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
        "@monthly": "0 0 1 * *",
        "@weekly": "0 0 * * 0",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@hourly": "0 * * * *",
    }
)
_ANY = datetime(2000, 1, 1)  # noqa: DTZ001 - a wall time has no zone
_NEVER = datetime(2200, 1, 1)  # noqa: DTZ001
_NEAREST = re.compile(r"(0?[1-9]|[12]\d|3[01])W", re.ASCII)
_DAY_OF_MONTH = -3  # its index from the end: an expression has five or six fields


class BadCronExpression(ValueError):
    """The text is no cron expression."""


class Cron(CronSim):
    """A cron expression with `15W`, the weekday nearest to a day of the month, which cronsim lacks."""

    def __init__(self, expression: str, begin: datetime) -> None:
        words = expression.upper().split()
        terms = words[_DAY_OF_MONTH].split(",") if len(words) in {5, 6} else []
        self._nearest = frozenset(int(term[:-1]) for term in terms if _NEAREST.fullmatch(term))
        if not self._nearest:
            super().__init__(expression, begin)
            return
        others = [term for term in terms if not _NEAREST.fullmatch(term)]
        words[_DAY_OF_MONTH] = ",".join(others or ["1"])  # cronsim requires one; it is removed below
        super().__init__(" ".join(words), begin)
        if not others:
            self.days = set[int]()

    def match_dom(self, d: date) -> bool:
        """True if `d` is one of the days of the month."""
        return super().match_dom(d) or any(
            _nearest_weekday(d.year, d.month, day) == d.day for day in self._nearest
        )

    def match_date(self, day: date) -> bool:
        """True if the expression ticks on this day at all."""
        return day.month in self.months and self.match_day(day)


@lru_cache(maxsize=4096)
def parse_cron(expression: str) -> Cron:
    """Parse an expression, or the expression that its macro stands for. Raises BadCronExpression."""
    text = MACROS.get(expression.strip().lower(), expression)
    try:
        return Cron(text, _ANY)
    except (CronSimError, ValueError, IndexError) as error:
        raise BadCronExpression(
            "expected a cron expression of five fields, or six with seconds first, such as "
            f'"30 6 * * MON-FRI", or one of {", ".join(MACROS)}; got {expression!r}: {error}'
        ) from error


def wall_times(expression: str, after: datetime) -> Iterator[datetime]:
    """Yield the wall times of the expression later than `after`, in order, up to the year 2200."""
    times = copy(parse_cron(expression))
    times.dt = after.replace(microsecond=0)
    return iter(lambda: next(times, _NEVER), _NEVER)


def _nearest_weekday(year: int, month: int, day: int) -> int | None:
    """Return the weekday nearest to a day, within its month; None if the month has no such day.

    Monday to Friday stand for themselves, the Friday before for a Saturday, the Monday after for a Sunday.
    """
    last = monthrange(year, month)[1]
    if day > last:
        return None
    match weekday(year, month, day):
        case 5:  # Saturday
            return day - 1 if day > 1 else day + 2
        case 6:  # Sunday
            return day + 1 if day < last else day - 2
        case _:
            return day
