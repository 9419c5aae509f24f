"""The calendar's answers for the command and the console."""

from datetime import UTC, datetime, timedelta

import pytest

from warrener.errors import CommandError, ExitCode
from warrener.schedules.calendar import preview_ticks, times_between
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import CronRule, Rule

PUT_AT = datetime(2026, 3, 1, tzinfo=UTC)
NIGHTLY = CronRule(expression="30 2 * * *")


def schedule(rule: Rule = NIGHTLY, zone: str = "Europe/Berlin") -> SchedulePutData:
    return SchedulePutData(name="nightly", rule=rule, timezone=zone, job_type="flights.load")


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
