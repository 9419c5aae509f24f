"""Holidays from a file: plain dates, TOML, or an iCalendar file (ICS), whose events may repeat.

A schedule on the wire carries the dates themselves, so no scheduler needs the file; who changes it puts the
schedule again.
"""

import re
import tomllib
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import cast

from warrener.errors import CommandError, ExitCode
from warrener.holiday_format import HolidayFormatError

_EXPECTED = (
    "lines that begin with a date such as 2026-12-25, TOML with dates = [2026-12-25, ...], or an iCalendar "
    "file of whole days (.ics)"
)


def read_holidays(path: Path, today: date) -> list[date]:
    """The days that the file names, in order, each once; the past ones of repeated events are left out.
    Raises CommandError that says what was expected."""
    try:
        match path.suffix.lower():
            case ".ics":
                # Its library takes a tenth of a second to load, which other commands need not wait for.
                from warrener.icalendar_days import read_event_days  # noqa: PLC0415

                found = set(read_event_days(path.read_bytes(), today))
            case ".toml":
                found = set(_of_toml(path.read_text(encoding="utf-8")))
            case _:
                found = set(_of_lines(path.read_text(encoding="utf-8-sig")))
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from None
    except ValueError as error:
        raise _refused(path, str(error)) from None
    if not found:
        raise _refused(path, "no date at all")
    return sorted(found)


def _refused(path: Path, came: str) -> CommandError:
    return CommandError(
        f"expected holidays in {path}, got {came}", do=f"give {_EXPECTED}", code=ExitCode.USAGE
    )


def _of_lines(text: str) -> Iterator[date]:
    for number, line in enumerate(text.splitlines(), start=1):
        words = re.split(r"[\s,;#]", line.strip(), maxsplit=1)
        if not words[0]:
            continue
        try:
            yield date.fromisoformat(words[0])
        except ValueError:
            raise HolidayFormatError(f"{words[0][:60]!r} in line {number}") from None


def _of_toml(text: str) -> Iterator[date]:
    dates: object = tomllib.loads(text).get("dates")
    if not isinstance(dates, list):
        raise HolidayFormatError(f"dates = {dates!r}")
    for one in cast("list[object]", dates):
        if not isinstance(one, date) or isinstance(one, datetime):
            raise HolidayFormatError(f"{one!r} among its dates (without quotes, and without a time)")
        yield one


def today() -> date:
    """In UTC."""
    return datetime.now(UTC).date()
