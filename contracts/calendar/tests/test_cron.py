"""Clock changes, ours beside other crons: the table in `docs/howto/schedule-jobs.md`, and that it holds in
every zone."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from itertools import takewhile
from zoneinfo import ZoneInfo

import pytest
from contracts.calendar.tests import slow_calendar
from hypothesis import given, settings
from hypothesis import strategies as st

from warrener_calendar import cron
from warrener_calendar.dst import moments
from warrener_contracts.schedule_rules import CronRule, DstGap, DstOverlap

FIXED = ["30 2 * * *", "0 2 * * *", "30 1,2,3 * * *", "15 0 * * *", "0,30 2 1,8,15,22,29 * *"]
BY_THE_CLOCK = ["*/15 * * * *", "0 * * * *", "30 * * * *", "*/30 2 * * *", "0 */2 * * *", "30 */3 * * *"]
A_WHILE = timedelta(hours=6)
CUTOFF = timedelta(hours=3)
"""By more than that Debian's cron takes a change for a correction of the clock."""


def ours(
    zone: str, expression: str, span: slow_calendar.Span, skipped: DstGap, repeated: DstOverlap
) -> list[datetime]:
    begin, end = span
    ticks = moments(zone, partial(cron.wall_times, expression), begin, skipped, repeated)
    return list(takewhile(lambda moment: moment < end, ticks))


@lru_cache(maxsize=3000)
def walls(expression: str, span: slow_calendar.Span) -> list[datetime]:
    """The wall minutes that the fields name, by the slow statement, which knows no steps."""
    plain = expression
    for step in (2, 3, 15, 30):
        every = ",".join(str(number) for number in range(0, 60, step))
        plain = plain.replace(f"*/{step} ", f"{every} ")
    return slow_calendar.slow_walls(
        partial(slow_calendar.ticks_at, CronRule(expression=plain)), span, beyond=3 * A_WHILE
    )


def jump(zone: ZoneInfo, change: datetime) -> timedelta:
    before, after = ((change + n * CUTOFF).astimezone(zone).utcoffset() for n in (0, 1))
    assert before is not None
    assert after is not None
    return after - before


@settings(max_examples=60, deadline=None)
@given(
    zone=st.sampled_from(slow_calendar.ZONES),
    year=st.sampled_from(slow_calendar.YEARS),
    expression=st.sampled_from(FIXED + BY_THE_CLOCK),
)
def test_cronsim_does_what_debian_documents_and_ours_what_is_chosen(
    zone: str, year: int, expression: str
) -> None:
    for change in slow_calendar.changes(ZoneInfo(zone), year):
        compare(zone, expression, change)


def compare(zone: str, expression: str, change: datetime) -> None:
    """All of them, in the hours around a clock change."""
    here, span = ZoneInfo(zone), (change - A_WHILE, change + A_WHILE)
    named, moved = walls(expression, span), jump(here, change)
    if abs(moved) >= CUTOFF:
        return
    debian = slow_calendar.debian_ticks(here, expression, named, span)
    if moved % timedelta(hours=1) == timedelta(0):  # else see below
        assert slow_calendar.cronsim_ticks(here, expression, span) == debian
    assert slow_calendar.croniter_ticks(here, expression, span) == slow_calendar.croniter_model(
        here, expression, named, span
    )
    if not slow_calendar.is_fixed(expression):
        assert ours(zone, expression, span, DstGap.SKIP, DstOverlap.BOTH) == debian
    elif moved < timedelta(0):
        assert ours(zone, expression, span, DstGap.SKIP, DstOverlap.FIRST) == debian


def test_cronsim_by_itself_loses_ticks_where_a_clock_changes_by_half_an_hour() -> None:
    """Found by the sweep, and one more reason why it is handed wall times without a zone."""
    (change,) = (
        found for found in slow_calendar.changes(ZoneInfo("Australia/Lord_Howe"), 2026) if found.month == 4
    )
    here, span = ZoneInfo("Australia/Lord_Howe"), (change - A_WHILE, change + A_WHILE)
    debian = slow_calendar.debian_ticks(here, "30 * * * *", walls("30 * * * *", span), span)
    assert len(slow_calendar.cronsim_ticks(here, "30 * * * *", span)) == len(debian) - 1
    assert ours("Australia/Lord_Howe", "30 * * * *", span, DstGap.SKIP, DstOverlap.BOTH) == debian


SPRING = datetime(2026, 3, 29, 0, 20, tzinfo=UTC)  # Berlin: 02:00 → 03:00, at 01:00 UTC
AUTUMN = datetime(2026, 10, 25, 0, 20, tzinfo=UTC)  # Berlin: 03:00 → 02:00, at 01:00 UTC


TWICE = "02:30+ 02:00 02:30"
CELLS = ("debian", "croniter", "skip and first", "after and both")


@pytest.mark.parametrize(
    ("expression", "night", "cells"),
    [
        ("30 2 * * *", SPRING, ("03:00", "03:00", "", "03:30")),
        ("30 2 * * *", AUTUMN, ("02:30+", "02:30+ 02:30", "02:30+", "02:30+ 02:30")),
        ("30 * * * *", SPRING, ("01:30 03:30", "01:30 03:30", "01:30 03:30", "01:30 03:30")),
        ("30 * * * *", AUTUMN, ("02:30+ 02:30", "02:30+ 02:30", "02:30+", "02:30+ 02:30")),
        ("*/30 2 * * *", SPRING, ("", "03:00", "", "03:00 03:30")),
        ("*/30 2 * * *", AUTUMN, (TWICE, TWICE, "02:30+", TWICE)),
    ],
)
def test_the_table_of_the_docs(expression: str, night: datetime, cells: tuple[str, ...]) -> None:
    """In the 80 minutes around the change; summer time has a plus where it matters."""
    berlin, span = ZoneInfo("Europe/Berlin"), (night, night + timedelta(minutes=80))

    def shown(ticks: list[datetime]) -> str:
        here = (tick.astimezone(berlin) for tick in ticks)
        return " ".join(f"{tick:%H:%M}{'+' if night is AUTUMN and tick.dst() else ''}" for tick in here)

    found = (
        slow_calendar.cronsim_ticks(berlin, expression, span),
        slow_calendar.croniter_ticks(berlin, expression, span),
        ours("Europe/Berlin", expression, span, DstGap.SKIP, DstOverlap.FIRST),
        ours("Europe/Berlin", expression, span, DstGap.AFTER, DstOverlap.BOTH),
    )
    assert dict(zip(CELLS, map(shown, found), strict=True)) == dict(zip(CELLS, cells, strict=True))
    assert shown(slow_calendar.debian_ticks(berlin, expression, walls(expression, span), span)) == cells[0]
