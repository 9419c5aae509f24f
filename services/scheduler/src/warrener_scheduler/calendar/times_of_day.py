"""Times of a day as one number: bit n is the second n since midnight. So what rules have in common, and what
one takes away from another, is a matter of `&` and `~`, whatever the rules are, and a day costs the same
whether it ticks once or each second. Pure."""

from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, time, timedelta

TimesOfDay = Callable[[date], int]
"""The times of each day, by the wall clock."""

_SECONDS = 86_400
NO_TIME = 0
ALL_DAY = (1 << _SECONDS) - 1
_DAY = timedelta(days=1)
_MAX_SILENCE = timedelta(days=60 * 366)
"""Days and weekdays of a Gregorian calendar have all met within 40 years: what is silent for longer ticks no
more."""


def second_of(at: time) -> int:
    """Since midnight."""
    return (at.hour * 60 + at.minute) * 60 + at.second


def these(times: Iterable[time]) -> int:
    """These and no others."""
    found = NO_TIME
    for at in times:
        found |= 1 << second_of(at)
    return found


def product(hours: Iterable[int], minutes: Iterable[int], seconds: Iterable[int]) -> int:
    """Each of the seconds in each of the minutes in each of the hours."""
    minute = sum(1 << second for second in set(seconds))
    hour = sum(minute << 60 * number for number in set(minutes))
    return sum(hour << 3600 * number for number in set(hours))


def between(since: time | None, until: time | None) -> int:
    """From `since` up to, and without, `until`; past midnight where that is the earlier one."""
    low = second_of(since or time.min)
    high = _SECONDS if until is None else second_of(until)
    if low < high:
        return (1 << high) - (1 << low)
    return ALL_DAY & ~((1 << low) - (1 << high))


def holds(times: TimesOfDay, wall: datetime) -> bool:
    """Whether the second of this wall time is among them."""
    return bool(times(wall.date()) >> second_of(wall.time()) & 1)


def wall_times(times: TimesOfDay, after: datetime) -> Iterator[datetime]:
    """All of them later than `after`, in order, until there is none for 60 years."""
    day, begun = after.date(), second_of(after.time()) + 1
    silent_since = day
    while day - silent_since <= _MAX_SILENCE:
        midnight = datetime.combine(day, time.min)
        for second in _bits(times(day) >> begun << begun):
            yield midnight + timedelta(seconds=second)
            silent_since = day
        day, begun = day + _DAY, 0


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest
