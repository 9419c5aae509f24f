"""The whole sweep: every zone, every clock change of the years 2020 to 2037, every choice, each rule against
an independent slow statement of it. It takes long: `make soak` runs it; other tests take samples."""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import product, takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from contracts.calendar.tests import slow_calendar
from contracts.calendar.tests.test_cron import compare
from contracts.calendar.tests.test_rules import all_of, any_of, business_days, cron, days, put, without

from warrener_calendar.ticks import nominal_times
from warrener_contracts.schedule_rules import DstGap, DstOverlap, Rule

pytestmark = [
    pytest.mark.skipif(not os.environ.get("WARRENER_TEST_SOAK"), reason="takes long: make soak runs it"),
    pytest.mark.timeout(7200),
]

_RULES: dict[str, Any] = {
    "each half hour": cron("0,30 * * * *"),
    "a night's job": cron("30 2 * * *"),
    "business days": business_days(
        at=["00:00", "00:30", "02:00", "02:30", "03:30", "23:30"],
        days=[1, 15, 30],
        business_day_convention="nearest",
    ),
    "all of": all_of(
        any_of(cron("0,30 * * * *"), business_days(at=["02:15"])), days(weekdays=["SAT", "SUN", "MON"])
    ),
    "except": without(cron("0,15,30,45 * * * *"), days(since="02:15", until="02:45"), cron("0 1 * * *")),
}
RULES: dict[str, Rule] = {name: put(rule).rule for name, rule in _RULES.items()}
ZONES_SEEN = f"{len(slow_calendar.ZONES)} zones ({len(slow_calendar.DISTINCT)} distinct)"
CHOICES = list(product(DstGap, DstOverlap))


@lru_cache(maxsize=5000)
def walls(name: str, span: slow_calendar.Span) -> list[datetime]:
    """Of a wall clock, so the same for all zones that change in one hour."""
    return slow_calendar.slow_walls(partial(slow_calendar.ticks_at, RULES[name]), span)


def each_change(zone: str) -> Iterator[datetime]:
    return (change for year in slow_calendar.YEARS for change in slow_calendar.changes(ZoneInfo(zone), year))


def fast(name: str, zone: str, span: slow_calendar.Span, choices: slow_calendar.Choice) -> list[datetime]:
    skipped, repeated = choices
    spec = put(RULES[name].model_dump(mode="json"), zone, dst_gap=skipped, dst_overlap=repeated)
    return list(takewhile(lambda moment: moment < span[1], nominal_times(spec, span[0], span[0])))


@pytest.mark.parametrize("name", RULES)
def test_around_every_clock_change(name: str, report: Callable[[str], None]) -> None:
    seen = ticks = 0
    for zone in slow_calendar.DISTINCT:
        for change in each_change(zone):
            span = slow_calendar.around(change)
            read = slow_calendar.readings(ZoneInfo(zone), walls(name, span))
            for choices in CHOICES:
                slow = slow_calendar.chosen(read, span, choices)
                assert fast(name, zone, span, choices) == slow, (zone, change, choices)
                seen, ticks = seen + 1, ticks + len(slow)
    report(f"{name}: {ZONES_SEEN}, {seen} changes with a choice each, {ticks} ticks")


def test_each_night_of_all_these_years(report: Callable[[str], None]) -> None:
    choices = DstGap.AFTER, DstOverlap.FIRST
    span = (
        datetime(slow_calendar.YEARS[0], 1, 1, tzinfo=UTC),
        datetime(slow_calendar.YEARS[-1] + 1, 1, 1, tzinfo=UTC),
    )
    ticks = 0
    for zone in slow_calendar.DISTINCT:
        slow = slow_calendar.slow_ticks(ZoneInfo(zone), walls("a night's job", span), span, choices)
        assert fast("a night's job", zone, span, choices) == slow, (zone, choices)
        ticks += len(slow)
    report(f"each night: {ZONES_SEEN}, {ticks} ticks")


@pytest.mark.parametrize("expression", ["30 2 * * *", "30 1,2,3 * * *", "30 * * * *", "*/30 2 * * *"])
def test_other_crons(expression: str, report: Callable[[str], None]) -> None:
    seen = 0
    for zone in slow_calendar.DISTINCT:
        for change in each_change(zone):
            compare(zone, expression, change)
            seen += 1
    report(f"{expression}: cronsim, Debian's rules and ours at {seen} changes")


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Figures are for the reader of the run, passed or not."""

    def write(figures: str) -> None:
        with capsys.disabled():
            print(f"\nsweep: {figures}", flush=True)

    return write
