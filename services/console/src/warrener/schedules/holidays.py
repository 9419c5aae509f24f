"""Holidays from a file: plain dates, TOML, or an iCalendar file (RFC 5545), whose events may repeat.

A schedule on the wire carries the dates themselves, so no scheduler needs the file. A changed file takes
effect when the schedule is put again.
"""

import re
import tomllib
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from warrener.errors import CommandError, UsageError
from warrener_contracts.json_safety import is_array

YEARS_AHEAD = 10  # years for which events without an end are repeated
_EXPECTED = (
    "lines that begin with a date such as 2026-12-25, TOML with dates = [2026-12-25, ...], or an iCalendar "
    "file of whole days (.ics)"
)
_DAY = timedelta(days=1)
_MAX_EVENT_DAYS = 366


class HolidayFormatError(ValueError):
    """Content that is no date, as found in the file."""


def read_holidays(path: Path, today: date) -> list[date]:
    """Read the days of a file, sorted and each once; past days of repeated events are left out.

    Raises CommandError.
    """
    try:
        match path.suffix.lower():
            case ".ics":
                found = set(_calendar_days(path.read_bytes(), today))
            case ".toml":
                found = set(_toml_days(path.read_text(encoding="utf-8")))
            case _:
                found = set(_line_days(path.read_text(encoding="utf-8-sig")))
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from None
    except ValueError as error:
        raise _refused(path, str(error)) from None
    if not found:
        raise _refused(path, "no date at all")
    return sorted(found)


def _refused(path: Path, came: str) -> CommandError:
    return UsageError(f"expected holidays in {path}, got {came}", do=f"give {_EXPECTED}")


def _line_days(text: str) -> Iterator[date]:
    for number, line in enumerate(text.splitlines(), start=1):
        words = re.split(r"[\s,;#]", line.strip(), maxsplit=1)
        if not words[0]:
            continue
        try:
            yield date.fromisoformat(words[0])
        except ValueError:
            raise HolidayFormatError(f"{words[0][:60]!r} in line {number}") from None


def _toml_days(text: str) -> Iterator[date]:
    dates: object = tomllib.loads(text).get("dates")
    if not isinstance(dates, list):
        raise HolidayFormatError(f"dates = {dates!r}")
    for one in cast("list[object]", dates):
        if not isinstance(one, date) or isinstance(one, datetime):
            raise HolidayFormatError(f"{one!r} among its dates (without quotes, and without a time)")
        yield one


# -- iCalendar ---------------------------------------------------------------------------------------------


def _calendar_days(text: bytes, today: date) -> Iterator[date]:
    try:
        from icalendar import Calendar  # noqa: PLC0415 - of an extra
    except ModuleNotFoundError as error:
        raise CommandError(
            "expected the package icalendar for holidays in an .ics file, got an installation without it",
            do="install warrener with its extra `ics`",
        ) from error

    calendar: Any = Calendar.from_ical(text)  # its methods are partly typed
    for event in calendar.walk("VEVENT"):
        begin: object = event.decoded("DTSTART", None)
        if not isinstance(begin, date) or isinstance(begin, datetime):
            raise HolidayFormatError(
                f"{str(event.get('SUMMARY', 'an event'))!r}, which does not last for whole days"
            )
        days = _event_length(event, begin)
        for first in _first_days(event, begin, today):
            yield from (first + n * _DAY for n in range(days))


def _event_length(event: Any, begin: date) -> int:
    """Days until DTEND, which is exclusive, or by DURATION; else one."""
    if "DTEND" in event:
        days = (_whole_day(event.decoded("DTEND"), begin) - begin).days
    else:
        days = event.decoded("DURATION").days if "DURATION" in event else 1
    if not 1 <= days <= _MAX_EVENT_DAYS:
        raise HolidayFormatError(f"an event of {days} days from {begin} on")
    return int(days)


def _first_days(event: Any, begin: date, today: date) -> Iterator[date]:
    """First days of the event's repetitions: by RRULE and RDATE, without EXDATE."""
    from dateutil.rrule import rrule, rruleset, rrulestr  # noqa: PLC0415 - as icalendar

    dates = rruleset()
    dates.rdate(_midnight(begin))
    for rule in _property_values(event, "RRULE"):
        text = _unzoned(rule.to_ical().decode())
        repeated = rrulestr(text, dtstart=_midnight(begin))
        assert isinstance(repeated, rrule)  # one rule makes no set
        dates.rrule(repeated)
    for name, add in (("RDATE", dates.rdate), ("EXDATE", dates.exdate)):
        for some in _property_values(event, name):
            for one in some.dts:
                add(_midnight(_whole_day(one.dt, begin)))
    end = _midnight(today).replace(year=today.year + YEARS_AHEAD, month=12, day=31)
    repeats = bool(_property_values(event, "RRULE"))
    since = _midnight(max(begin, today - _MAX_EVENT_DAYS * _DAY) if repeats else begin)
    return (moment.date() for moment in dates.between(since, max(end, _midnight(begin)), inc=True))


def _whole_day(found: object, begin: date) -> date:
    if not isinstance(found, date) or isinstance(found, datetime):
        raise HolidayFormatError(f"{found} in an event of whole days from {begin} on")
    return found


def _property_values(event: Any, name: str) -> list[Any]:
    found: Any = event.get(name, [])
    return list(found) if is_array(found) else [found]


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)  # noqa: DTZ001 - a whole day has no zone


def _unzoned(rule: str) -> str:
    """The rule with an UNTIL in UTC, as some write it for whole days, replaced by that day's midnight."""
    return re.sub(r"(UNTIL=\d{8})(T\d{6}Z?)?", r"\1T000000", rule)
