"""Holidays come from the files that people have."""

import sys
from datetime import date
from pathlib import Path

import pytest

from warrener.errors import CommandError
from warrener.schedules.holidays import read_holidays

TODAY = date(2026, 11, 21)
CHRISTMAS = [date(2026, 12, 24), date(2026, 12, 25), date(2026, 12, 26)]


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


def test_plain_dates_with_words_and_remarks(tmp_path: Path) -> None:
    text = "# Germany\n\n2026-12-25 Christmas Day\n2026-12-24\n2026-12-26,Boxing Day\n2026-12-26\n"
    assert read_holidays(file(tmp_path, "holidays.txt", text), TODAY) == CHRISTMAS


def test_toml(tmp_path: Path) -> None:
    text = "dates = [2026-12-24, 2026-12-25, # Christmas\n 2026-12-26]"
    assert read_holidays(file(tmp_path, "holidays.toml", text), TODAY) == CHRISTMAS


def test_an_icalendar_file_with_events_of_several_days(tmp_path: Path) -> None:
    text = calendar(
        "DTSTART;VALUE=DATE:20261224\nDTEND;VALUE=DATE:20261226\nSUMMARY:Christmas",
        "DTSTART;VALUE=DATE:20261226\nSUMMARY:Boxing Day",
    )
    assert read_holidays(file(tmp_path, "holidays.ics", text), TODAY) == CHRISTMAS


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
    assert [day for day in found if day.month != 1] == [
        date(2026, 11, 26),
        date(2027, 11, 25),
        date(2028, 7, 7),
    ]


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


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file"):
        read_holidays(tmp_path / "none.txt", TODAY)


def test_without_the_extra_a_calendar_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "icalendar", None)
    with pytest.raises(CommandError, match="install warrener with its extra `ics`"):
        read_holidays(file(tmp_path, "holidays.ics", calendar()), TODAY)
