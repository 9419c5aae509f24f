"""Warnings about schedules, and schedules without any."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from contracts.calendar.tests.test_rules import put

from warrener_calendar.lint import LintWarning, lint_schedule

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
NIGHTLY = {"kind": "cron", "expression": "30 2 * * *"}
HOURLY = {"kind": "cron", "expression": "30 * * * *"}
MINUTELY = {"kind": "interval", "every": 60}


def found(
    rule: Any, timezone: str = "UTC", durations: Sequence[float] = (), **choices: Any
) -> list[LintWarning]:
    spec = put(rule, timezone, **choices)
    return lint_schedule(spec, NOW, durations=[timedelta(seconds=seconds) for seconds in durations])


def kinds(rule: Any, timezone: str = "UTC", **choices: Any) -> list[str]:
    return [one.kind for one in found(rule, timezone, **choices)]


@pytest.mark.parametrize("rule", [NIGHTLY, HOURLY, MINUTELY, {"kind": "once", "after": "2h"}])
def test_what_is_plain_goes_without_a_word(rule: Any) -> None:
    assert found(rule) == []
    assert found(rule, durations=[1.0, 59.0], jitter="30s", misfire="window", catch_up_window="1h") == []


# -- it never ticks, or not again --------------------------------------------------------------------------


def test_a_schedule_that_would_be_refused_has_the_reason() -> None:
    never = {"kind": "all_of", "rules": [NIGHTLY, HOURLY, {"kind": "days", "since": "09:00"}]}
    (one,) = found(never)
    assert one.kind == "refused"
    assert "got one that never does" in one.text


def test_arguments_that_name_what_no_tick_has_would_be_refused() -> None:
    spec = put(NIGHTLY).model_copy(update={"arguments": {"day": "{{ tick.day }}"}})
    (one,) = lint_schedule(spec, NOW)
    assert one.kind == "refused"
    assert "got '{{ tick.day }}'" in one.text


def test_what_never_ticks_again() -> None:
    assert kinds({"kind": "once", "at": "2026-11-21T11:00:00Z"}) == ["over"]
    assert kinds(HOURLY, end="2026-11-21T11:00:00Z") == ["over"]


def test_ticks_that_start_and_end_bound() -> None:
    assert kinds(HOURLY, start="2027-11-21T11:00:00Z") == ["starts-late"]
    (soon,) = found(HOURLY, end="2026-11-21T14:00:00Z")
    assert soon.kind == "ends-soon"
    assert "last of its 2 ticks is at 2026-11-21 13:30:00 UTC" in soon.text
    assert kinds(HOURLY, start="2026-11-22T11:00:00Z", end="2026-11-22T12:00:00Z") == ["bounds"]
    assert kinds(HOURLY, end="2027-06-01T00:00:00Z") == []


# -- clock changes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "becomes", "consequence"),
    [
        ("skip", "no tick", "there is no tick then"),
        ("after", "2027-03-28 03:30:00 CEST", "as much later as the clock jumps"),
        ("before", "2027-03-28 01:30:00 CET", "as much earlier as the clock jumps"),
    ],
)
def test_ticks_in_skipped_hours_of_the_coming_years(choice: str, becomes: str, consequence: str) -> None:
    _, skipped = found(NIGHTLY, "Europe/Berlin", dst_gap=choice)
    assert skipped.kind == "skipped-hour"
    assert skipped.dates[0] == {"wall": "2027-03-28 02:30:00", "becomes": becomes}
    days = ["2027-03-28", "2028-03-26", "2029-03-25", "2030-03-31", "2031-03-30"]
    assert [one["wall"][:10] for one in skipped.dates] == days
    assert "2027-03-28, 2028-03-26, 2029-03-25 and 2 more times, first at 02:30" in skipped.text
    assert consequence in skipped.text


@pytest.mark.parametrize(
    ("choice", "becomes"),
    [
        ("first", "2027-10-31 02:30:00 CEST"),
        ("last", "2027-10-31 02:30:00 CET"),
        ("both", "2027-10-31 02:30:00 CEST, 2027-10-31 02:30:00 CET"),
    ],
)
def test_ticks_in_hours_that_come_twice(choice: str, becomes: str) -> None:
    repeated, _ = found(NIGHTLY, "Europe/Berlin", dst_overlap=choice)
    assert repeated.kind == "repeated-hour"
    assert repeated.dates[0] == {"wall": "2027-10-31 02:30:00", "becomes": becomes}
    assert f"dst_overlap={choice}" in repeated.text


def test_a_rule_that_goes_on_through_a_change_is_not_warned_of_unless_it_is_silent_for_an_hour() -> None:
    assert kinds(HOURLY, "Europe/Berlin", dst_overlap="both") == []
    assert kinds(HOURLY, "Europe/Berlin", dst_overlap="first") == ["repeated-hour"]
    assert kinds(MINUTELY, "Europe/Berlin") == []


def test_clock_changes_of_combined_rules() -> None:
    noon = {"kind": "cron", "expression": "0 12 * * *"}
    assert kinds({"kind": "any_of", "rules": [MINUTELY, noon]}, "Europe/Berlin") == []
    both = {"kind": "any_of", "rules": [MINUTELY, NIGHTLY]}
    assert kinds(both, "Europe/Berlin") == ["repeated-hour", "skipped-hour"]
    sundays = {"kind": "except", "rule": NIGHTLY, "without": [{"kind": "days", "weekdays": ["SUN"]}]}
    assert kinds(sundays, "Europe/Berlin") == []


# -- its jobs and its choices ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overlap", "consequence"),
    [("allow", "side by side"), ("skip", "ticks are skipped"), ("cancel", "are cancelled")],
)
def test_jobs_that_take_longer_than_the_time_between_two_ticks(overlap: str, consequence: str) -> None:
    (one,) = found(MINUTELY, durations=[12.0, 90.5, 61.0], overlap=overlap)
    assert one.kind == "overlap"
    assert "2 of its last 3 jobs took longer than the 60 s" in one.text
    assert "the longest 90.5 s" in one.text
    assert consequence in one.text


def test_choices_that_make_no_sense() -> None:
    assert kinds(MINUTELY, jitter="2m") == ["jitter"]
    assert kinds(MINUTELY, misfire="window", catch_up_window="10s") == ["catch-up"]
    assert kinds(MINUTELY, catch_up_window="1h") == ["catch-up"]
    assert kinds(MINUTELY, misfire="once", max_catch_up=50) == ["catch-up"]
    assert kinds(MINUTELY, misfire="all", max_catch_up=50) == []


def test_holidays_that_nobody_has_brought_up_to_date() -> None:
    rule = {"kind": "business_days", "at": ["09:00"], "holidays": ["2026-01-01", "2026-12-25"]}
    (one,) = found(rule)
    assert (one.kind, "the last date that its rule names is 2026-12-25" in one.text) == ("holidays-end", True)
    assert found({**rule, "holidays": ["2026-01-01", "2027-12-25"]}) == []
