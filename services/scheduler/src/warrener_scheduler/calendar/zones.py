"""Time zones of the IANA database, and the moments at which their clocks change."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

_STEP = timedelta(hours=12)  # no zone has ever changed its clock twice in so short a time
_SECOND = timedelta(seconds=1)


class UnknownZone(ValueError):
    """The database has no zone of this name."""


class ClockChange(NamedTuple):
    """The clock of a zone changes at `at`: from `before` to `after` as its distance from UTC."""

    at: datetime
    before: timedelta
    after: timedelta


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """The zone of this name. Raises UnknownZone."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        raise UnknownZone(
            f"expected a name of the IANA time zone database such as Europe/Berlin, got {name!r}"
        ) from error


@lru_cache(maxsize=8192)
def changes_of(name: str, year: int) -> Sequence[ClockChange]:
    """The clock changes of one year (in UTC), in order."""
    here = zone(name)
    found: list[ClockChange] = []
    low, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    before = _offset(here, low)
    while low < end:
        high = min(low + _STEP, end)
        after = _offset(here, high)
        if after != before:
            found.append(ClockChange(_moment(here, low, high, before), before, after))
        low, before = high, after
    return found


def next_change(name: str, moment: datetime) -> ClockChange:
    """The first clock change after `moment`; where there is none for a year, one that changes nothing."""
    years = (moment.year, moment.year + 1)
    found = next((change for year in years for change in changes_of(name, year) if change.at > moment), None)
    if found is not None:
        return found
    later = datetime(moment.year + 2, 1, 1, tzinfo=UTC)
    return ClockChange(later, offset_at(name, later), offset_at(name, later))


def last_change(name: str, moment: datetime) -> ClockChange | None:
    """The last clock change at or before `moment`; None if there was none within a year."""
    years = (moment.year, moment.year - 1)
    return next(
        (change for year in years for change in reversed(changes_of(name, year)) if change.at <= moment), None
    )


def offset_at(name: str, moment: datetime) -> timedelta:
    """How far the clock of the zone is ahead of UTC."""
    return _offset(zone(name), moment)


def _offset(here: ZoneInfo, moment: datetime) -> timedelta:
    found = moment.astimezone(here).utcoffset()
    assert found is not None
    return found


def _moment(here: ZoneInfo, low: datetime, high: datetime, before: timedelta) -> datetime:
    """The first second of (low, high] at which the offset is no longer `before`."""
    while high - low > _SECOND:
        middle = low + (high - low) // 2
        middle = middle.replace(microsecond=0)
        if _offset(here, middle) == before:
            low = middle
        else:
            high = middle
    return high
