"""Rules and clocks: when a schedule ticks, in every zone, whatever its owner chose for clock changes."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from contracts.calendar.tests.test_rules import put
from hypothesis import given
from hypothesis import strategies as st

from warrener_calendar import cron
from warrener_calendar.ticks import NeverTicks, check, due_at, nominal_times
from warrener_calendar.zones import UnknownZone
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import CronRule, IntervalRule, OnceRule

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def first(spec: SchedulePutData, after: datetime, count: int) -> list[str]:
    return [f"{moment:%Y-%m-%dT%H:%M:%S}" for moment in islice(nominal_times(spec, NOON, after), count)]


SPRING = datetime(2026, 3, 28, 12, tzinfo=UTC)  # Berlin: 02:00 → 03:00 on the 29th, at 01:00 UTC
AUTUMN = datetime(2026, 10, 24, 12, tzinfo=UTC)  # Berlin: 03:00 → 02:00 on the 25th, at 01:00 UTC


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({"dst_gap": "skip"}, ["2026-03-30T00:30:00", "2026-03-31T00:30:00"]),
        ({"dst_gap": "after"}, ["2026-03-29T01:30:00", "2026-03-30T00:30:00"]),  # 03:30 by the new clock
        ({"dst_gap": "before"}, ["2026-03-29T00:30:00", "2026-03-30T00:30:00"]),  # 01:30 by the old one
        ({"dst_overlap": "first"}, ["2026-10-25T00:30:00", "2026-10-26T01:30:00"]),
        ({"dst_overlap": "last"}, ["2026-10-25T01:30:00", "2026-10-26T01:30:00"]),
        ({"dst_overlap": "both"}, ["2026-10-25T00:30:00", "2026-10-25T01:30:00"]),
    ],
)
def test_a_tick_in_a_skipped_or_repeated_hour(choices: dict[str, str], expected: Sequence[str]) -> None:
    spec = put(CronRule(expression="30 2 * * *"), "Europe/Berlin", **choices)
    assert first(spec, SPRING if "dst_gap" in choices else AUTUMN, 2) == expected


def test_a_moved_tick_that_meets_another_is_one_tick() -> None:
    spec = put(CronRule(expression="30 2,3 * * *"), "Europe/Berlin", dst_gap="after")
    assert first(spec, SPRING, 2) == ["2026-03-29T01:30:00", "2026-03-30T00:30:00"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*/20 * * * * *", ["2026-01-01T12:00:20", "2026-01-01T12:00:40"]),
        ("0 9 L * *", ["2026-01-31T09:00:00", "2026-02-28T09:00:00"]),
        ("0 9 LW * *", ["2026-01-30T09:00:00", "2026-02-27T09:00:00"]),
        ("0 9 15W * *", ["2026-01-15T09:00:00", "2026-02-16T09:00:00"]),  # a Sunday: the Monday after
        ("0 9 1W 2,8 *", ["2026-02-02T09:00:00", "2026-08-03T09:00:00"]),  # never the month before
        ("0 0 9 28w,31W FEB,MAY *", ["2026-02-27T09:00:00", "2026-05-28T09:00:00"]),
        ("0 9 * * MON#1", ["2026-01-05T09:00:00", "2026-02-02T09:00:00"]),
        ("0 9 * JAN,MAR FRI", ["2026-01-02T09:00:00", "2026-01-09T09:00:00"]),
        ("@daily", ["2026-01-02T00:00:00", "2026-01-03T00:00:00"]),
        ("0 0 29 2 *", ["2028-02-29T00:00:00", "2032-02-29T00:00:00"]),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Africa/Accra"])
def test_cron(expression: str, expected: Sequence[str], zone: str) -> None:
    assert first(put(CronRule(expression=expression), zone), NOON, 2) == expected


def test_a_leap_day_is_found_in_a_zone_with_clock_changes() -> None:
    spec = put(CronRule(expression="0 12 29 2 *"), "America/New_York")
    assert first(spec, NOON, 2) == ["2028-02-29T17:00:00", "2032-02-29T17:00:00"]


def test_a_zone_that_changes_its_clock_after_decades_is_followed() -> None:
    spec = put(CronRule(expression="0 12 1 * *"), "Asia/Almaty")  # +06 until March 2024, +05 since
    found = first(spec, datetime(2020, 1, 15, tzinfo=UTC), 52)
    assert (found[0], found[-1]) == ("2020-02-01T06:00:00", "2024-05-01T07:00:00")


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "61 * * * *",
        "* * *",
        "@sometimes",
        "0 0 31 2 *",
        "a b c d e",
        "0 0 32W * *",
        "0 0 1W-5W * *",
        "0 0 L-3 * *",
        "0 0 ? * *",
        "@reboot",
    ],
)
def test_a_bad_expression_is_refused_with_what_was_expected(expression: str) -> None:
    with pytest.raises(cron.BadCronExpression, match="expected a cron expression of five fields"):
        cron.parse_cron(expression)


def test_an_interval_counts_from_its_anchor() -> None:
    anchor = datetime(2026, 1, 1, 12, 0, 7, tzinfo=UTC)
    spec = put(IntervalRule(every=timedelta(seconds=10), anchor=anchor, offset=timedelta(seconds=1)))
    assert first(spec, NOON, 2) == ["2026-01-01T12:00:08", "2026-01-01T12:00:18"]
    assert first(spec, NOON + timedelta(seconds=18), 1) == ["2026-01-01T12:00:28"]


@given(every=st.integers(1, 10**7), after=st.integers(0, 10**9), jump=st.integers(0, 10**6))
def test_an_interval_ticks_alike_for_every_caller_at_any_time(every: int, after: int, jump: int) -> None:
    spec = put(IntervalRule(every=timedelta(milliseconds=every)))
    since = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=after)
    one, two = islice(nominal_times(spec, NOON, since), 2)
    assert since < one
    assert two - one == timedelta(milliseconds=every)
    between = min(since + timedelta(microseconds=jump), one - timedelta(microseconds=1))
    assert next(nominal_times(spec, NOON, between)) == one


def test_one_shot_at_a_time_or_after_a_delay() -> None:
    later = NOON + timedelta(minutes=5)
    for rule in (OnceRule(at=later), OnceRule(after=timedelta(minutes=5))):
        assert list(nominal_times(put(rule), NOON, NOON)) == [later]
        assert list(nominal_times(put(rule), NOON, later)) == []


def test_start_and_end_are_respected() -> None:
    start, end = NOON + timedelta(seconds=2), NOON + timedelta(seconds=4)
    spec = put(IntervalRule(every=timedelta(seconds=1)), start=start, end=end)
    assert list(nominal_times(spec, NOON, NOON)) == [start, NOON + timedelta(seconds=3), end]


@given(st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2037, 1, 1)))  # noqa: DTZ001 - made aware below
def test_jitter_is_the_same_for_every_caller_and_never_beyond_the_limit(moment: datetime) -> None:
    spec, nominal = put(OnceRule(at=NOON), jitter=60), moment.replace(tzinfo=UTC)
    late = due_at(spec, nominal) - nominal
    assert timedelta(0) <= late < timedelta(seconds=60)
    assert due_at(spec, nominal) == nominal + late


def test_ticks_of_one_moment_are_spread_by_jitter() -> None:
    names = [put(OnceRule(at=NOON), jitter=60).model_copy(update={"name": f"s{n}"}) for n in range(1000)]
    late = sorted((due_at(spec, NOON) - NOON).total_seconds() for spec in names)
    assert 25 < late[500] < 35


def test_what_never_ticks_is_refused() -> None:
    with pytest.raises(NeverTicks):
        check(put(CronRule(expression="0 0 1 1 *"), start=NOON, end=NOON + timedelta(days=30)), NOON)
    with pytest.raises(UnknownZone, match="Europe/Berlin"):
        check(put(CronRule(expression="@daily"), "Europe/Bermuda"), NOON)
