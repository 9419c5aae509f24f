"""Wall times of a cron expression: cronsim under a thin wrapper. It knows no zone; `wall_clock` does.

Left to itself cronsim does with clock changes what Debian's cron does. It is handed wall times without a zone
here, so that the owner of a schedule chooses what is done.
"""

import re
from collections.abc import Iterator
from copy import copy
from datetime import date, datetime
from functools import lru_cache
from types import MappingProxyType

from cronsim import CronSim, CronSimError

from warrener_scheduler.calendar.nearest_weekday import nearest_weekday

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
_DAY_OF_MONTH = -3  # its place, counted from the end: there are five fields or six


class BadCronExpression(ValueError):
    """No cron expression."""


class Cron(CronSim):
    """With `15W`, the weekday nearest to a day of the month, which cronsim lacks."""

    def __init__(self, expression: str, begin: datetime) -> None:
        words = expression.upper().split()
        terms = words[_DAY_OF_MONTH].split(",") if len(words) in {5, 6} else []
        self._nearest = frozenset(int(term[:-1]) for term in terms if _NEAREST.fullmatch(term))
        if not self._nearest:
            super().__init__(expression, begin)
            return
        others = [term for term in terms if not _NEAREST.fullmatch(term)]
        words[_DAY_OF_MONTH] = ",".join(others or ["1"])  # cronsim wants one; it is taken away again
        super().__init__(" ".join(words), begin)
        if not others:
            self.days = set[int]()

    def match_dom(self, d: date) -> bool:
        """Whether it is one of the days of the month."""
        return super().match_dom(d) or any(
            nearest_weekday(d.year, d.month, day) == d.day for day in self._nearest
        )

    def match_date(self, day: date) -> bool:
        """Whether it ticks on this day at all."""
        return day.month in self.months and self.match_day(day)


@lru_cache(maxsize=4096)
def parse_cron(expression: str) -> Cron:
    """The expression, or the one that its macro stands for. Raises BadCronExpression that says what was
    expected."""
    text = MACROS.get(expression.strip().lower(), expression)
    try:
        return Cron(text, _ANY)
    except (CronSimError, ValueError, IndexError) as error:
        raise BadCronExpression(
            "expected a cron expression of five fields, or six with seconds first, such as "
            f'"30 6 * * MON-FRI", or one of {", ".join(MACROS)}; got {expression!r}: {error}'
        ) from error


def wall_times(expression: str, after: datetime) -> Iterator[datetime]:
    """The wall times of the expression that are later than the wall time `after`, in order, up to the year
    2200."""
    times = copy(parse_cron(expression))
    times.dt = after.replace(microsecond=0)
    return iter(lambda: next(times, _NEVER), _NEVER)
