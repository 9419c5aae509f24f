"""The days of the events of an iCalendar file (RFC 5545)."""

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any, cast

from dateutil.rrule import rrule, rruleset, rrulestr
from icalendar import Calendar

from warrener.holiday_format import HolidayFormatError
from warrener_contracts.json_safety import is_array

YEARS_AHEAD = 10
"""So far events are repeated that say no end themselves."""
_DAY = timedelta(days=1)
_LONGEST = 366  # days that one event may last


def read_event_days(text: bytes, today: date) -> Iterator[date]:
    """The days of its events; the past ones of those that repeat are left out. Raises NoDates or another
    ValueError where it is no calendar, or has events that do not last for whole days."""
    calendar: Any = Calendar.from_ical(text)  # its methods are typed in part alone
    for event in calendar.walk("VEVENT"):
        begin: object = event.decoded("DTSTART", None)
        if not isinstance(begin, date) or isinstance(begin, datetime):
            raise HolidayFormatError(
                f"{str(event.get('SUMMARY', 'an event'))!r}, which does not last for whole days"
            )
        days = _length(event, begin)
        for first in _repeated(event, begin, today):
            yield from (first + n * _DAY for n in range(days))


def _length(event: Any, begin: date) -> int:
    """In days: until DTEND, which is the first day that is none, or by DURATION; else one."""
    if "DTEND" in event:
        days = (_day(event.decoded("DTEND"), begin) - begin).days
    else:
        days = event.decoded("DURATION").days if "DURATION" in event else 1
    if not 1 <= days <= _LONGEST:
        raise HolidayFormatError(f"an event of {days} days from {begin} on")
    return int(days)


def _repeated(event: Any, begin: date, today: date) -> Iterator[date]:
    """Its first days: by RRULE and RDATE, without EXDATE."""
    dates = rruleset()
    dates.rdate(_midnight(begin))
    for rule in _listed(event, "RRULE"):
        text = _unzoned(rule.to_ical().decode())
        dates.rrule(cast("rrule", rrulestr(text, dtstart=_midnight(begin))))  # one rule is no set
    for name, take in (("RDATE", dates.rdate), ("EXDATE", dates.exdate)):
        for some in _listed(event, name):
            for one in some.dts:
                take(_midnight(_day(one.dt, begin)))
    end = _midnight(today).replace(year=today.year + YEARS_AHEAD, month=12, day=31)
    since = _midnight(begin if not _listed(event, "RRULE") else max(begin, today - _LONGEST * _DAY))
    return (moment.date() for moment in dates.between(since, max(end, _midnight(begin)), inc=True))


def _day(found: object, begin: date) -> date:
    if not isinstance(found, date) or isinstance(found, datetime):
        raise HolidayFormatError(f"{found} in an event of whole days from {begin} on")
    return found


def _listed(event: Any, name: str) -> list[Any]:
    found: Any = event.get(name, [])
    return list(found) if is_array(found) else [found]


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)  # noqa: DTZ001 - a whole day has no zone


def _unzoned(rule: str) -> str:
    """An UNTIL in UTC, as some write it beside days, as a day's midnight."""
    return re.sub(r"(UNTIL=\d{8})(T\d{6}Z?)?", r"\1T000000", rule)
