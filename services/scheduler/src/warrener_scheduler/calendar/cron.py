"""Wall times of a cron expression: cronsim under a thin wrapper. It knows no zone; `wall_clock` does.

Left to itself cronsim does with clock changes what Debian's cron does. It is handed wall times without a zone
here, so that the owner of a schedule chooses what is done.
"""

from collections.abc import Iterator
from copy import copy
from datetime import datetime
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


class BadExpression(ValueError):
    """No cron expression."""


@lru_cache(maxsize=4096)
def _parsed(expression: str) -> CronSim:
    text = MACROS.get(expression.strip().lower(), expression)
    try:
        return CronSim(text, _ANY)
    except (CronSimError, ValueError, IndexError) as error:
        raise BadExpression(
            "expected a cron expression of five fields, or six with seconds first, such as "
            f'"30 6 * * MON-FRI", or one of {", ".join(MACROS)}; got {expression!r}: {error}'
        ) from error


def check(expression: str) -> None:
    """Raises BadExpression that says what was expected."""
    _parsed(expression)


def wall_times(expression: str, after: datetime) -> Iterator[datetime]:
    """The wall times of the expression that are later than the wall time `after`, in order, up to the year
    2200."""
    times = copy(_parsed(expression))
    times.dt = after.replace(microsecond=0)
    return iter(lambda: next(times, _NEVER), _NEVER)
