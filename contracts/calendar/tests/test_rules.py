"""Business days, holidays and combined rules: each tick once, none missing, whatever the clock does."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from contracts.calendar.tests import slow_calendar
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from warrener_calendar.ticks import NeverTicks, check, nominal_times, preview, times_between
from warrener_calendar.wall_rules import BadCombination, TooManySteps
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import DstGap, DstOverlap

JANUARY = datetime(2026, 1, 1, tzinfo=UTC)


def put(rule: Any, timezone: str = "UTC", **choices: Any) -> SchedulePutData:
    return SchedulePutData.model_validate(
        {"name": "tick", "rule": rule, "timezone": timezone, "job_type": "noop", "choices": choices}
    )


def cron(expression: str) -> dict[str, Any]:
    return {"kind": "cron", "expression": expression}


def business_days(**fields: Any) -> dict[str, Any]:
    return {"kind": "business_days", "at": ["09:00"], **fields}


def rolled(day: int, convention: str) -> dict[str, Any]:
    return {"days": [day], "business_day_convention": convention}


def any_of(*rules: Any) -> dict[str, Any]:
    return {"kind": "any_of", "rules": rules}


def all_of(*rules: Any) -> dict[str, Any]:
    return {"kind": "all_of", "rules": rules}


def without(rule: Any, *others: Any) -> dict[str, Any]:
    return {"kind": "except", "rule": rule, "without": others}


def days(**fields: Any) -> dict[str, Any]:
    return {"kind": "days", **fields}


def every(span: str) -> dict[str, Any]:
    return {"kind": "interval", "every": span}


def dates(rule: Any, after: datetime = JANUARY, count: int = 3) -> list[str]:
    return [f"{moment:%Y-%m-%d}" for moment in islice(nominal_times(put(rule), after, after), count)]


def times(rule: Any, after: datetime = JANUARY, count: int = 3) -> list[str]:
    return [f"{moment:%d %H:%M:%S}" for moment in islice(nominal_times(put(rule), after, after), count)]


# -- business days -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"nth": [-1], "holidays": ["2026-01-30"]}, ["2026-01-29", "2026-02-27", "2026-03-31"]),
        ({"nth": [1]}, ["2026-01-01", "2026-02-02", "2026-03-02"]),
        ({"nth": [2, -2], "months": [3]}, ["2026-03-03", "2026-03-30", "2027-03-02"]),
        (rolled(15, "after"), ["2026-01-15", "2026-02-16", "2026-03-16"]),
        (rolled(15, "before"), ["2026-01-15", "2026-02-13", "2026-03-13"]),
        (rolled(15, "nearest"), ["2026-01-15", "2026-02-16", "2026-03-16"]),
        (rolled(15, "skip"), ["2026-01-15", "2026-04-15", "2026-05-15"]),
        ({**rolled(31, "after"), "months": [1, 4]}, ["2026-02-02", "2027-02-01", "2028-01-31"]),
        ({**rolled(1, "before"), "months": [3]}, ["2026-02-27", "2027-03-01", "2028-03-01"]),
    ],
)
def test_the_days_that_are_chosen_in_each_month(choice: dict[str, Any], expected: Sequence[str]) -> None:
    assert dates(business_days(**choice)) == expected


weekdays = st.lists(st.sampled_from(["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]), unique=True)
months = st.lists(st.integers(1, 12), max_size=6, unique=True)
holidays = st.lists(st.dates(date(2025, 10, 1), date(2027, 3, 31)), max_size=200)
times_of_day = st.builds("{:02}:{:02}".format, st.integers(0, 23), st.integers(0, 59))
chosen: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just(dict[str, Any]()),
    st.fixed_dictionaries({"nth": st.lists(st.sampled_from([1, 2, 20, -1, -3]), min_size=1)}),
    st.fixed_dictionaries(
        {
            "days": st.lists(st.integers(1, 31), min_size=1, max_size=4),
            "business_day_convention": st.sampled_from(["skip", "before", "after", "nearest"]),
        }
    ),
)


@settings(max_examples=60, deadline=None)
@given(weekdays=weekdays.filter(bool), holidays=holidays, months=months, chosen=chosen)
def test_the_days_are_those_of_a_slow_look_at_each_day(
    weekdays: list[str], holidays: list[date], months: list[int], chosen: dict[str, Any]
) -> None:
    rule = put(business_days(weekdays=weekdays, holidays=holidays, months=months, **chosen)).rule
    begin, end = datetime(2026, 1, 1), datetime(2027, 1, 1)  # noqa: DTZ001 - wall times
    slow = [
        wall for n in range(365) if slow_calendar.ticks_at(rule, wall := begin + timedelta(days=n, hours=9))
    ]
    spec = put(rule.model_dump(mode="json"))
    fast = nominal_times(spec, JANUARY, JANUARY)
    until = end.replace(tzinfo=UTC)
    assert [moment.replace(tzinfo=None) for moment in takewhile(lambda one: one < until, fast)] == slow


# -- combinations ------------------------------------------------------------------------------------------


def test_any_of_several_ticks_at_one_time_once() -> None:
    rule = any_of(cron("0 */6 * * *"), cron("0 12 * * *"), every("8h"))
    expected = ["01 06:00:00", "01 08:00:00", "01 12:00:00", "01 16:00:00", "01 18:00:00"]
    assert times(rule, JANUARY, 5) == expected


def test_except_takes_ticks_and_whole_days_away() -> None:
    rule = without(cron("0 9 * * MON-FRI"), cron("0 9 * * MON#1"), days(dates=["2026-01-06"]))
    assert dates(rule) == ["2026-01-01", "2026-01-02", "2026-01-07"]


def test_an_interval_within_office_hours() -> None:
    office = days(weekdays=["MON", "TUE"], since="08:00", until="08:03")
    found = times(all_of(every("90s"), office), JANUARY, 4)
    assert found == ["05 08:00:00", "05 08:01:30", "06 08:00:00", "06 08:01:30"]


def test_an_interval_that_rests_at_night() -> None:
    rule = without(every("4h"), days(since="22:00", until="09:00"), days(dates=["2026-01-02"]))
    expected = ["01 12:00:00", "01 16:00:00", "01 20:00:00", "03 12:00:00", "03 16:00:00"]
    assert times(rule, JANUARY, 5) == expected


def test_once_within_days_or_not_at_all() -> None:
    once = {"kind": "once", "at": "2026-01-06T10:00:00Z"}
    assert dates(all_of(once, days(weekdays=["TUE"]))) == ["2026-01-06"]
    assert dates(all_of(once, days(weekdays=["WED"]))) == []


def test_the_rule_of_the_docs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "howto" / "schedule-jobs.md").read_text(encoding="utf-8")
    rule = json.loads(page.split("```json\n")[1].split("```")[0])
    assert times(rule, datetime(2026, 12, 23, 17, 58, 30, tzinfo=UTC), 2) == ["25 08:00:00", "25 08:01:30"]


@pytest.mark.parametrize(
    "rule",
    [
        all_of(cron("1-59/2 * * * *"), cron("*/2 * * * *")),  # they never meet
        all_of(cron("30 2 * * *"), cron("30 3 * * *")),  # not even where 02:30 is moved to 03:30
        all_of(every("1d"), days(since="08:00", until="09:00")),
        without(cron("0 9 * * *"), days(since="08:00", until="10:00")),
        business_days(weekdays=["MON"], months=[2], days=[30]),
    ],
)
@pytest.mark.timeout(20)
def test_what_never_ticks_is_found_and_refused(rule: Any) -> None:
    with pytest.raises(NeverTicks):
        check(put(rule, "Europe/Berlin"), JANUARY)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (any_of(cron("@daily"), days(months=[1])), "put them into all_of"),
        (all_of(days(months=[1]), days(weekdays=["MON"])), "got days alone"),
        (all_of(every("90s"), cron("* 8-18 * * *")), "say its times as days, with since and until"),
        (without(every("90s"), cron("0 9 * * *")), "expected except to take days alone"),
        (any_of(cron("@daily"), cron("61 * * * *")), "expected a cron expression"),
        (any_of(cron("@daily"), every("50ms")), "at least 0.1 s"),
    ],
)
def test_a_bad_combination_is_refused_with_what_would_work(rule: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        check(put(rule), JANUARY)
    assert issubclass(BadCombination, ValueError)


def _deep(levels: int) -> Any:
    return any_of(_deep(levels - 1)) if levels > 1 else cron("@daily")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (_deep(6), "at most 30 parts in 5 levels, got 6 in 6"),
        (any_of(*[any_of(*[cron("@daily")] * 10)] * 3), "got 34 in 3"),
        (business_days(nth=[1], days=[1]), "expected either nth or days"),
        (business_days(nth=[0]), "got 0"),
        (business_days(at=["09:00+02:00"]), "without a zone"),
        (business_days(at=["09:00:00.5"]), "whole seconds"),
        (all_of(cron("@daily"), days()), "expected weekdays, months, dates, since or until"),
        (all_of(cron("@daily"), days(since="09:00", until="09:00")), "to differ"),
    ],
)
def test_what_is_too_large_or_empty_is_refused_by_the_wire(rule: Any, expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        put(rule)


def test_a_preview_lists_clock_changes_where_a_part_goes_by_the_wall_clock() -> None:
    march = datetime(2026, 3, 28, tzinfo=UTC)
    berlin = partial(put, timezone="Europe/Berlin")
    assert any("clock_change" in line for line in preview(berlin(business_days()), march, march, 3))
    within = all_of(every("12h"), days(since="08:00", until="20:00"))
    assert any("clock_change" in line for line in preview(berlin(within), march, march, 3))
    assert not any("clock_change" in line for line in preview(berlin(any_of(every("12h"))), march, march, 9))


# -- clock changes -----------------------------------------------------------------------------------------


def test_a_rule_whose_ticks_are_too_far_apart_is_given_up_in_a_preview() -> None:
    daily = {"kind": "interval", "every": "P1D", "anchor": "2026-01-01T00:00:30Z"}
    rare = all_of(daily, days(dates=["2080-01-01"], since="00:00", until="00:01"))
    spec = put(any_of(*[rare] * 9))
    assert next(nominal_times(spec, JANUARY, JANUARY)).year == 2080
    with pytest.raises(TooManySteps, match="among 200,000 days, got one that needs more"):
        preview(spec, JANUARY, JANUARY, 2)
    with pytest.raises(TooManySteps):
        times_between(spec, JANUARY, JANUARY, datetime(2189, 1, 1, tzinfo=UTC), 2)


def test_an_exclusion_goes_by_the_wall_clock_of_the_rule_and_not_by_where_a_tick_is_moved() -> None:
    """Troll, Antarctica, jumps by two hours; 02:30 is moved to 04:30, and is 02:30 still to an exclusion."""
    rule = without(cron("30 2,4 * * *"), cron("30 4 * * *"))
    spec = put(rule, "Antarctica/Troll")
    march = datetime(2026, 3, 28, 12, tzinfo=UTC)
    found = islice(nominal_times(spec, march, march), 2)
    assert [f"{moment:%d %H:%M}" for moment in found] == ["29 02:30", "30 00:30"]


minutes_and_hours = st.builds(
    "{} {} {} * {}".format,
    st.sampled_from(["0", "30", "0,15,45", "*"]),
    st.sampled_from(["*", "0", "1,2,3", "0,23", "2"]),
    st.sampled_from(["*", "L", "15W", "LW", "1,29,31"]),
    st.sampled_from(["*", "0", "0,6", "1,2,3,4,5"]),
).map(cron)
business = st.builds(
    business_days,
    at=st.lists(st.sampled_from(["00:00", "00:30", "01:15", "02:00", "02:30", "23:45"]), min_size=1),
    weekdays=st.sampled_from([["MON", "TUE", "WED", "THU", "FRI"], ["SAT", "SUN"]]),
)
narrowing = st.builds(
    days,
    weekdays=weekdays,
    since=st.sampled_from(["00:00", "01:30", "02:30", "23:00"]),
    until=st.sampled_from(["02:00", "03:00", "12:00"]),
)
ticking = st.recursive(
    minutes_and_hours | business,
    lambda rules: st.one_of(
        st.builds(any_of, rules, rules),
        st.builds(all_of, rules, rules | narrowing),
        st.builds(without, rules, rules | narrowing),
    ),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(
    zone=st.sampled_from(slow_calendar.ZONES),
    year=st.sampled_from(slow_calendar.YEARS),
    rule=ticking,
    choices=st.tuples(st.sampled_from(DstGap), st.sampled_from(DstOverlap)),
)
def test_no_tick_of_combined_rules_is_missing_and_none_comes_twice_whatever_the_clock_does(
    zone: str, year: int, rule: Any, choices: tuple[DstGap, DstOverlap]
) -> None:
    skipped, repeated = choices
    spec = put(rule, zone, dst_gap=skipped, dst_overlap=repeated)
    here = ZoneInfo(zone)
    for change in slow_calendar.changes(here, year) or [datetime(year, 6, 1, tzinfo=UTC)]:
        begin, end = span = slow_calendar.around(change)
        slow = slow_calendar.slow_ticks(
            here, slow_calendar.slow_walls(partial(slow_calendar.ticks_at, spec.rule), span), span, choices
        )
        assert list(takewhile(end.__gt__, nominal_times(spec, begin, begin))) == slow
        assert one_by_one(spec, begin, end) == slow


def one_by_one(spec: SchedulePutData, begin: datetime, end: datetime) -> list[datetime]:
    """Compute ticks as a scheduler does: each time the one behind the last one."""
    found: list[datetime] = []
    while (begin := next(nominal_times(spec, begin, begin), end)) < end:
        found.append(begin)
    return found
