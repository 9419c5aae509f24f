"""The calendar that stays between queries."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from warrener.errors import CommandError
from warrener.schedules.calendar_process import CalendarProcess
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import CronRule, Rule

PUT_AT = datetime(2026, 3, 1, tzinfo=UTC)
NIGHTLY = CronRule(expression="30 2 * * *")


def schedule(rule: Rule = NIGHTLY, zone: str = "Europe/Berlin") -> SchedulePutData:
    return SchedulePutData(name="nightly", rule=rule, timezone=zone, job_type="flights.load")


@pytest.fixture
async def calendar() -> AsyncIterator[CalendarProcess]:
    process = CalendarProcess()
    yield process
    await process.close()


async def test_it_previews_ticks_over_a_clock_change(calendar: CalendarProcess) -> None:
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)
    change, tick = await calendar.preview_ticks(schedule(), 1, PUT_AT, before)
    assert "02:00 → 03:00" in change["clock_change"]
    assert "skipped times: after" in change["clock_change"]
    assert tick["wall"] == "Sun 2026-03-29 03:30:00 CEST"


async def test_it_gives_the_times_of_a_span_with_a_limit(calendar: CalendarProcess) -> None:
    begin = datetime(2026, 6, 1, tzinfo=UTC)
    times = await calendar.times_between(schedule(), PUT_AT, begin, begin + timedelta(days=9), 4)
    assert times == [begin + timedelta(days=day, minutes=30) for day in range(4)]


async def test_a_refused_rule_is_a_sentence_and_the_next_query_is_answered(calendar: CalendarProcess) -> None:
    never = schedule(CronRule(expression="0 0 30 2 *"))
    with pytest.raises(CommandError, match="Bad day-of-month"):
        await calendar.preview_ticks(never, 1)
    assert len(await calendar.preview_ticks(schedule(), 3)) >= 3


async def test_it_starts_again_after_its_process_was_closed(calendar: CalendarProcess) -> None:
    for _ in range(2):
        assert await calendar.preview_ticks(schedule(zone="UTC"), 1, PUT_AT)
        await calendar.close()


async def test_a_rule_that_takes_too_long_is_given_up() -> None:
    calendar = CalendarProcess(timeout=0.0)
    with pytest.raises(CommandError, match=r"within 0 s, got none"):
        await calendar.preview_ticks(schedule(), 1)
    await calendar.close()
