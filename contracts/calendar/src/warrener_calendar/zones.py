"""Time zones of the IANA database, the moments at which their clocks change, and the version of the database.

Python looks into the folders of the system first (`zoneinfo.TZPATH`, which PYTHONTZPATH sets), and takes from
the package tzdata the zones that are missing there.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple
from zoneinfo import TZPATH, ZoneInfo, available_timezones

_STEP = timedelta(hours=12)  # no zone has ever changed its clock twice in so short a time
_SECOND = timedelta(seconds=1)


class UnknownZone(ValueError):
    """The database has no zone of this name."""


class ClockChange(NamedTuple):
    """At `at` the clock of a zone changes its distance from UTC from `before` to `after`."""

    at: datetime
    before: timedelta
    after: timedelta


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """Return the zone of this name. Raises UnknownZone."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        raise UnknownZone(
            f"expected a name of the IANA time zone database such as Europe/Berlin, got {name!r}"
        ) from error


@lru_cache(maxsize=8192)
def changes_of(name: str, year: int) -> Sequence[ClockChange]:
    """Return the clock changes of one year (in UTC), in order."""
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
    """Return the first clock change after `moment`; a change of nothing if the next year has none."""
    years = (moment.year, moment.year + 1)
    found = next((change for year in years for change in changes_of(name, year) if change.at > moment), None)
    if found is not None:
        return found
    later = datetime(moment.year + 2, 1, 1, tzinfo=UTC)
    return ClockChange(later, offset_at(name, later), offset_at(name, later))


def last_change(name: str, moment: datetime) -> ClockChange | None:
    """Return the last clock change at or before `moment`; None if there was none within a year."""
    years = (moment.year, moment.year - 1)
    return next(
        (change for year in years for change in reversed(changes_of(name, year)) if change.at <= moment), None
    )


def offset_at(name: str, moment: datetime) -> timedelta:
    """Return how far the clock of the zone is ahead of UTC."""
    return _offset(zone(name), moment)


@lru_cache(maxsize=1)
def database_version() -> str:
    """Return the release of the database that this process plans by, and a digest of all zones.

    The digest is needed because distributions correct zones within a release, and people add files of their
    own. A process reads each zone once, so the version holds until the process ends.
    """
    digest = sha256()
    for name in sorted(available_timezones()):
        digest.update(f"{name}\n".encode())
        digest.update(zone_file(name))
    return f"{_release()} {digest.hexdigest()[:12]}"


def zone_file(name: str) -> bytes:
    """Return the bytes of the database about one zone."""
    found = (Path(folder, name) for folder in TZPATH)
    path = next((path for path in found if path.is_file()), None)
    return path.read_bytes() if path else files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


def _offset(here: ZoneInfo, moment: datetime) -> timedelta:
    found = moment.astimezone(here).utcoffset()
    assert found is not None
    return found


def _moment(here: ZoneInfo, low: datetime, high: datetime, before: timedelta) -> datetime:
    """Find the first second of (low, high] at which the offset is no longer `before`."""
    while high - low > _SECOND:
        middle = low + (high - low) // 2
        middle = middle.replace(microsecond=0)
        if _offset(here, middle) == before:
            low = middle
        else:
            high = middle
    return high


def _release() -> str:
    """Return the release that the first folder with a release names."""
    for folder in TZPATH:
        try:
            with Path(folder, "tzdata.zi").open(encoding="ascii") as lines:
                return lines.readline().removeprefix("# version").strip()
        except OSError:
            continue  # the file is optional, and so is the folder
    return version("tzdata")
