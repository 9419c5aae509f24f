"""Ticks that are missed, caught up with and planned again: decisions without a scheduler."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from services.scheduler.tests.stage import START, at, put

from warrener_contracts.events import JobRequested, TickStatus
from warrener_contracts.schedule_rules import CronRule, IntervalRule
from warrener_contracts.schedule_words import MisfirePolicy
from warrener_scheduler.decisions.ticks import BATCH_SIZE, DECISION_LEAD, decide_ticks, plan_first_tick
from warrener_store.schedules.rows import DueSchedule, ScheduleRow, TickRow

ZONES = "2026a"


def scheduled(put_at: datetime, **choices: Any) -> ScheduleRow:
    return plan_first_tick(
        ScheduleRow(definition=put(**choices).data, put_at=put_at, zone_version=ZONES), put_at
    )


def decided(row: ScheduleRow, *moments: datetime) -> tuple[ScheduleRow, list[TickRow]]:
    ticks: list[TickRow] = []
    for now in moments:
        while row.wake_at is not None and row.wake_at <= now:
            step = decide_ticks(DueSchedule(row), now, ZONES)
            row = step.row
            ticks += step.ticks
    return row, ticks


F, S, U, C = "fired", "skipped", "caught_up", "coalesced"


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({"misfire": "skip"}, [S, S, S, F]),
        ({"misfire": "once"}, [C, C, C, F]),
        ({"misfire": "all"}, [U, U, U, F]),
        ({"misfire": "all", "max_catch_up": 2}, [S, U, U, F]),
        ({"misfire": "window", "catch_up_window": 2.5}, [S, U, U, F]),
        ({"misfire": "skip", "grace": 0.1}, [S, S, S, S]),
        ({"misfire": "once", "grace": 0.1}, [C, C, C, U]),
        ({"misfire": "all", "grace": 0.1, "max_catch_up": 2}, [S, S, U, U]),
    ],
)
def test_a_schedule_that_was_not_looked_at_over_3_ticks(choices: dict[str, Any], expected: list[str]) -> None:
    row, ticks = decided(scheduled(START, **choices), at(3.2))
    assert [tick.status.value for tick in ticks] == expected
    assert [tick.nominal_at for tick in ticks] == [at(n) for n in range(4)]
    assert row.next_at == at(4)
    assert all(tick.reason for tick in ticks if tick.status is not TickStatus.FIRED), (
        "the tick history says why"
    )
    assert all((tick.request is None) == (tick.status.value in (S, C)) for tick in ticks)


@settings(max_examples=50, deadline=None)
@given(
    misfire=st.sampled_from(MisfirePolicy),
    most=st.integers(1, 5),
    pauses=st.lists(st.floats(0.1, 20), min_size=1, max_size=8),
)
def test_every_nominal_time_has_one_row_whenever_somebody_looks(
    misfire: MisfirePolicy, most: int, pauses: Sequence[float]
) -> None:
    row = scheduled(START, misfire=misfire, max_catch_up=most, catch_up_window=3)
    looks = [at(sum(pauses[: n + 1])) for n in range(len(pauses))]
    row, ticks = decided(row, *looks)
    until = looks[-1] + DECISION_LEAD
    assert [tick.nominal_at for tick in ticks] == [
        at(n) for n in range(int(sum(pauses)) + 2) if at(n) <= until
    ]
    assert row.runs == sum(tick.request is not None for tick in ticks)


def test_a_tick_is_not_missed_before_the_next_one_is_due() -> None:
    row = scheduled(START, rule=IntervalRule(every=timedelta(milliseconds=100)))
    step = decide_ticks(DueSchedule(row), at(0.099), ZONES)
    assert [(tick.nominal_at, tick.status) for tick in step.ticks] == [(START, TickStatus.FIRED)]
    step = decide_ticks(DueSchedule(step.row), at(0.099), ZONES)
    assert [(tick.nominal_at, tick.status) for tick in step.ticks] == [(at(0.1), TickStatus.FIRED)]


@pytest.mark.parametrize(("misfire", "jobs"), [("skip", 1), ("once", 1), ("all", 11), ("window", 6)])
def test_a_long_absence_is_caught_up_with_in_portions(misfire: str, jobs: int) -> None:
    count = 3 * BATCH_SIZE + 500
    row = scheduled(START, misfire=misfire, max_catch_up=10, catch_up_window=5.5)
    first = decide_ticks(DueSchedule(row), at(count), ZONES)
    assert len(first.ticks) == BATCH_SIZE
    assert first.row.wake_at == at(BATCH_SIZE) - DECISION_LEAD, "the others have their turn between"
    row, ticks = decided(row, at(count))
    assert [tick.nominal_at for tick in ticks] == [at(n) for n in range(count + 1)]
    assert sum(tick.request is not None for tick in ticks) == jobs
    assert ticks[-1].status is TickStatus.FIRED


def test_another_zone_database_replans() -> None:
    row = scheduled(START, rule=CronRule(expression="0 12 * * *"))
    wrong = replace(row, zone_version="2025z", next_at=at(11 * 3600), wake_at=START)
    step = decide_ticks(DueSchedule(wrong), START, ZONES)
    assert step.ticks == ()
    assert (step.row.next_at, step.row.zone_version) == (at(12 * 3600), ZONES)


def test_a_replaced_schedule_has_missed_nothing_before_that_when_it_is_replanned() -> None:
    row = scheduled(at(3600 * 72), rule=CronRule(expression="@hourly"))
    again = replace(row, zone_version="2025z", last_nominal_at=START, wake_at=row.put_at)
    step = decide_ticks(DueSchedule(again), at(3600 * 72 + 60), ZONES)
    assert [tick.nominal_at for tick in step.ticks] == [row.put_at]
    later = decide_ticks(DueSchedule(replace(again, last_nominal_at=row.put_at)), at(3600 * 72 + 60), ZONES)
    assert later.ticks == ()


def test_the_request_of_a_tick_is_the_same_as_anyones() -> None:
    _, ticks = decided(scheduled(START), START)
    assert ticks[0].request is not None
    request_event = JobRequested.model_validate_json(ticks[0].request[1:-1])
    assert request_event.id == str(ticks[0].job_id)
