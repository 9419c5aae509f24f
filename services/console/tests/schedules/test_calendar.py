"""The calendar's answers for the command and the console, and holidays from files."""

import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from warrener.errors import CommandError, ExitCode
from warrener.schedules.calendar import preview_ticks, times_between
from warrener.schedules.holidays import read_holidays
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import CronRule, Rule

PUT_AT = datetime(2026, 3, 1, tzinfo=UTC)
NIGHTLY = CronRule(expression="30 2 * * *")
TODAY = date(2026, 11, 21)
CHRISTMAS = [date(2026, 12, 24), date(2026, 12, 25), date(2026, 12, 26)]


def schedule(rule: Rule = NIGHTLY) -> SchedulePutData:
    return SchedulePutData(name="nightly", rule=rule, timezone="Europe/Berlin", job_type="flights.load")


def test_it_previews_ticks_over_a_clock_change() -> None:
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)
    change, tick = preview_ticks(schedule(), 1, PUT_AT, before)
    assert "02:00 → 03:00" in change.clock_change
    assert "skipped times: after" in change.clock_change
    assert tick.wall == "Sun 2026-03-29 03:30 CEST"


def test_it_gives_the_times_of_a_span_with_a_limit() -> None:
    begin = datetime(2026, 6, 1, tzinfo=UTC)
    times = times_between(schedule(), PUT_AT, begin, begin + timedelta(days=9), 4)
    assert times == [begin + timedelta(days=day, minutes=30) for day in range(4)]


def test_a_refused_rule_is_an_error_of_usage() -> None:
    with pytest.raises(CommandError, match="Bad day-of-month") as error:
        preview_ticks(schedule(CronRule(expression="0 0 30 2 *")), 1)
    assert error.value.code is ExitCode.USAGE


# -- holidays ------------------------------------------------------------------------------------------------


def file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def calendar(*events: str) -> str:
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Office//Holidays//EN"]
    for number, event in enumerate(events):
        lines += [
            "BEGIN:VEVENT",
            f"UID:{number}",
            "DTSTAMP:20260101T000000Z",
            *event.split("\n"),
            "END:VEVENT",
        ]
    return "\r\n".join([*lines, "END:VCALENDAR", ""])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "dates with words and remarks.txt",
            "# Germany\n\n2026-12-25 Christmas Day\n2026-12-24\n2026-12-26,Boxing Day\n2026-12-26\n",
        ),
        ("dates.toml", "dates = [2026-12-24, 2026-12-25, # Christmas\n 2026-12-26]"),
        (
            "an event of several days.ics",
            calendar(
                "DTSTART;VALUE=DATE:20261224\nDTEND;VALUE=DATE:20261226\nSUMMARY:Christmas",
                "DTSTART;VALUE=DATE:20261226\nSUMMARY:Boxing Day",
            ),
        ),
    ],
    ids=["plain", "toml", "icalendar"],
)
def test_holidays_come_from_the_files_that_people_have(tmp_path: Path, name: str, text: str) -> None:
    assert read_holidays(file(tmp_path, name, text), TODAY) == CHRISTMAS


def test_events_that_repeat_do_so_for_ten_years_or_until_they_end(tmp_path: Path) -> None:
    text = calendar(
        "DTSTART;VALUE=DATE:20000101\nRRULE:FREQ=YEARLY\nEXDATE;VALUE=DATE:20290101\nSUMMARY:New Year",
        "DTSTART;VALUE=DATE:20261126\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=+4TH;UNTIL=20271231T235959Z\n"
        "RDATE;VALUE=DATE:20280707",
    )
    found = read_holidays(file(tmp_path, "holidays.ics", text), TODAY)
    assert [day for day in found if day.month == 1] == [
        date(year, 1, 1) for year in range(2026, 2037) if year != 2029
    ]
    others = [date(2026, 11, 26), date(2027, 11, 25), date(2028, 7, 7)]
    assert [day for day in found if day.month != 1] == others


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.txt", "25.12.2026\n", "'25.12.2026' in line 1"),
        ("a.txt", "# none\n", "no date at all"),
        ("a.toml", "dates = 2026-12-25", "dates = datetime.date"),
        ("a.toml", 'dates = ["2026-12-25"]', "without quotes"),
        ("a.toml", "dates = [", "Invalid"),
        ("a.ics", "no calendar", "got "),
        (
            "a.ics",
            calendar("DTSTART:20261225T090000Z\nSUMMARY:Lunch"),
            "'Lunch', which does not last for whole days",
        ),
        ("a.ics", calendar("DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261225"), "0 days"),
        (
            "a.ics",
            calendar("DTSTART;VALUE=DATE:20261225\nDTEND:20261226T090000Z"),
            "in an event of whole days",
        ),
    ],
)
def test_a_file_without_dates_shows_what_was_expected(
    tmp_path: Path, name: str, text: str, expected: str
) -> None:
    with pytest.raises(CommandError, match=r"expected holidays in .*a\.\w+, got ") as caught:
        read_holidays(file(tmp_path, name, text), TODAY)
    assert expected in caught.value.sentence
    assert "2026-12-25" in str(caught.value.do)


def test_without_the_extra_a_calendar_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "icalendar", None)
    with pytest.raises(CommandError, match="install warrener with its extra `ics`"):
        read_holidays(file(tmp_path, "holidays.ics", calendar()), TODAY)
