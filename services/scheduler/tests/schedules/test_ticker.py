"""Ticks are decided once, on time, caught up with as the owner of the schedule chose."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from services.scheduler.tests.stage import SECOND, START, Stage, at, changed, put

from warrener_calendar.zones import database_version
from warrener_contracts import topology
from warrener_contracts.events import JobCancelRequested, ScheduleTicked, TickStatus
from warrener_contracts.identity import tick_job_id
from warrener_contracts.schedule_rules import CronRule, IntervalRule, OnceRule
from warrener_contracts.schedule_words import MisfirePolicy
from warrener_scheduler.decisions.ticks import BATCH_SIZE, DECISION_LEAD, decide_ticks, plan_first_tick
from warrener_store.schedules.rows import DueSchedule, ScheduleRow, TickRow


class TestOnTime:
    async def test_each_tick_requests_one_job_whose_id_is_derived_from_it(self, stage: Stage) -> None:
        begun = stage.clock.now()
        await stage.publish(put(), then=3.2)
        ticks = await stage.tick_rows()
        assert [tick.nominal_at for tick in ticks] == [begun + SECOND * n for n in range(4)]
        secret = await stage.secret()
        assert stage.job_ids() == [tick_job_id("tick", tick.nominal_at, secret) for tick in ticks]
        assert {tick.status for tick in ticks} == {TickStatus.FIRED}
        assert all(tick.fired_at == tick.due_at and tick.request is None for tick in ticks)
        published = [(event.data.status, event.data.job_id) for event in stage.all_of(ScheduleTicked)]
        assert published == [(TickStatus.FIRED, job_id) for job_id in stage.job_ids()]

    async def test_it_sleeps_until_the_next_tick_and_no_longer(self, stage: Stage) -> None:
        await stage.publish(put(rule=OnceRule(at=stage.clock.now() + timedelta(hours=30))), then=3600)
        await stage.clock.leap(28 * 3600)  # it looks every two seconds: 50,000 looks that find nothing
        await stage.clock.advance(3600 - 0.1)
        assert await stage.tick_rows() == []
        await stage.clock.advance(0.1)
        assert await stage.statuses() == ["fired"]
        assert (await stage.store.schedules())["tick"].wake_at is None

    async def test_a_tick_is_decided_a_little_ahead_and_requested_when_it_is_due(self, stage: Stage) -> None:
        due = stage.clock.now() + timedelta(hours=1)
        await stage.publish(put(rule=OnceRule(at=due)), then=3600 - 0.01)
        (tick,) = await stage.tick_rows()
        assert (tick.decided_at, tick.fired_at) == (due - DECISION_LEAD, None)
        assert stage.job_ids() == []
        await stage.clock.advance(0.01)
        assert stage.job_ids() == [tick.job_id]
        row = (await stage.store.jobs_by_id(stage.job_ids()))[stage.job_ids()[0]]
        assert row.requested_at == due

    async def test_nothing_is_decided_ahead_where_it_hangs_on_the_last_job(self, stage: Stage) -> None:
        due = stage.clock.now() + timedelta(hours=1)
        await stage.publish(put(rule=OnceRule(at=due), overlap="skip"), then=3600 - 0.01)
        assert await stage.tick_rows() == []
        await stage.clock.advance(0.01)
        assert [tick.decided_at for tick in await stage.tick_rows()] == [due]

    async def test_jitter_is_respected(self, stage: Stage) -> None:
        await stage.publish(put(rule=IntervalRule(every=timedelta(minutes=1)), jitter=30), then=300)
        ticks = [tick for tick in await stage.tick_rows() if tick.fired_at is not None]
        late = [(tick.due_at - tick.nominal_at).total_seconds() for tick in ticks]
        assert len(late) >= 4
        assert len(set(late)) == len(late)
        assert all(0 <= one < 30 for one in late)
        assert all(tick.fired_at == tick.due_at for tick in ticks)


class TestOverlap:
    async def test_skip(self, stage: Stage) -> None:
        await stage.publish(put(overlap="skip"), then=1.5)
        await stage.end_job(stage.job_ids()[0])
        await stage.clock.advance(1)
        assert await stage.statuses() == ["fired", "skipped", "fired"]
        assert (await stage.tick_rows())[1].reason == "the job of an earlier tick is not over"

    @pytest.mark.parametrize(("choices", "meanwhile"), [({"max_runs": 2}, 0), ({}, 2)])
    async def test_queue_one_skips_what_comes_while_one_waits(
        self, stage: Stage, choices: dict[str, Any], meanwhile: int
    ) -> None:
        await stage.publish(put(overlap="queue_one", **choices), then=3.5)
        assert await stage.statuses() == ["fired", "waiting", *["skipped"] * meanwhile]
        await stage.end_job(stage.job_ids()[0])
        await stage.clock.advance(1.5)
        assert (await stage.statuses())[:2] == ["fired", "fired"]
        assert len(stage.job_ids()) == 2

    async def test_a_waiting_tick_is_fired_though_its_schedule_is_replaced_and_not_due_for_long(
        self, stage: Stage
    ) -> None:
        await stage.publish(put(overlap="queue_one"), then=1.5)
        assert await stage.statuses() == ["fired", "waiting"]
        yearly = put(overlap="queue_one", rule=CronRule(expression="@yearly"))
        await stage.publish(yearly.model_copy(update={"id": "put-again"}), then=1)
        await stage.end_job(stage.job_ids()[0])
        await stage.clock.advance(1.5)
        assert await stage.statuses() == ["fired", "fired"]

    async def test_queue_all_fires_them_in_their_order(self, stage: Stage) -> None:
        await stage.publish(put(overlap="queue_all", max_runs=3), then=2.5)
        assert await stage.statuses() == ["fired", "waiting", "waiting"]
        for count in (1, 2, 3):
            assert len(stage.job_ids()) == count
            await stage.end_job(stage.job_ids()[-1])
            await stage.clock.advance(1.5)
        assert stage.job_ids() == [tick.job_id for tick in await stage.tick_rows()]

    async def test_cancel_stops_the_running_one(self, stage: Stage) -> None:
        await stage.publish(put(overlap="cancel"), then=1.5)
        assert [event.data.job_id for event in stage.all_of(JobCancelRequested)] == stage.job_ids()[:1]
        assert await stage.statuses() == ["fired", "fired"]

    async def test_a_job_that_was_rejected_does_not_block_for_ever(self, stage: Stage) -> None:
        rule = IntervalRule(every=timedelta(seconds=30))
        await stage.publish(changed(put(overlap="skip", rule=rule), job_type="unknown"), then=95)
        assert (await stage.statuses())[:3] == ["fired"] * 3

    async def test_skip_holds_while_requests_wait_for_minutes(self, stage: Stage) -> None:
        every = put(overlap="skip", rule=IntervalRule(every=timedelta(seconds=30)))
        await stage.publish(every, then=35)
        await stage.end_job(stage.job_ids()[0])
        stage.broker.mute(topology.REQUESTS_QUEUE.name)
        await stage.clock.advance(600)
        assert await stage.statuses() == ["fired", "fired", *["skipped"] * 19]
        stage.broker.mute(topology.REQUESTS_QUEUE.name, muted=False)
        await stage.clock.advance(1)
        assert len(stage.job_ids()) == 2, "never two at once"
        await stage.end_job(stage.job_ids()[1])
        await stage.clock.advance(30)
        assert (await stage.statuses())[-1] == "fired"

    async def test_what_was_lost_with_its_queue_does_not_block_for_ever(self, stage: Stage) -> None:
        every = put(overlap="skip", rule=IntervalRule(every=timedelta(minutes=10)))
        await stage.publish(every, then=605)
        await stage.end_job(stage.job_ids()[0])
        stage.broker.mute(topology.REQUESTS_QUEUE.name)
        await stage.clock.advance(600)
        stage.broker.purge(topology.REQUESTS_QUEUE.name)
        stage.broker.mute(topology.REQUESTS_QUEUE.name, muted=False)
        await stage.clock.advance(3600)
        assert await stage.statuses() == ["fired", "fired", *["skipped"] * 5, "fired"]


class TestFailure:
    async def test_a_schedule_whose_zone_has_gone_does_not_stop_the_others(self, stage: Stage) -> None:
        row = scheduled(stage.clock.now(), name="gone", rule=CronRule(expression="* * * * *"))
        spec = row.definition.model_copy(update={"timezone": "Europe/Bermuda"})
        await stage.store.put_schedules([replace(row, definition=spec, wake_at=stage.clock.now())])
        await stage.publish(put(), then=3.5)
        assert await stage.statuses() == ["fired"] * 4
        assert await stage.statuses("gone") == []


async def test_the_trace_of_a_tick_names_its_schedule_and_its_nominal_time(stage: Stage) -> None:
    await stage.publish(put(rule=OnceRule(at=at(10))), then=11)
    (tick,) = await stage.tick_rows()
    (span,) = (span for span in stage.telemetry.spans() if span.name == "tick flights.load")
    attributes = dict(span.attributes or {})
    assert span.parent is None
    assert attributes["warrener.schedule.name"] == "tick"
    assert attributes["warrener.schedule.nominal_time"] == tick.nominal_at.isoformat()
    assert span.context is not None
    assert tick.job_id is not None
    (row,) = (await stage.store.jobs_by_id([tick.job_id])).values()
    assert (row.traceparent or "")[3:35] == f"{span.context.trace_id:032x}"


ZONES = "2026a"


def scheduled(put_at: datetime, **choices: Any) -> ScheduleRow:
    return plan_first_tick(
        ScheduleRow(definition=put(**choices).data, put_at=put_at, zone_version=ZONES), put_at
    )


def decided(row: ScheduleRow, *moments: datetime) -> tuple[ScheduleRow, list[TickRow]]:
    ticks: list[TickRow] = []
    for now in moments:
        while row.wake_at is not None and row.wake_at <= now:
            step = decide_ticks(DueSchedule(row), now, ZONES, "secret")
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
    step = decide_ticks(DueSchedule(row), at(0.099), ZONES, "secret")
    assert [(tick.nominal_at, tick.status) for tick in step.ticks] == [(START, TickStatus.FIRED)]
    step = decide_ticks(DueSchedule(step.row), at(0.099), ZONES, "secret")
    assert [(tick.nominal_at, tick.status) for tick in step.ticks] == [(at(0.1), TickStatus.FIRED)]


@pytest.mark.parametrize(("misfire", "jobs"), [("skip", 1), ("once", 1), ("all", 11), ("window", 6)])
def test_a_long_absence_is_caught_up_with_in_portions(misfire: str, jobs: int) -> None:
    count = 3 * BATCH_SIZE + 500
    row = scheduled(START, misfire=misfire, max_catch_up=10, catch_up_window=5.5)
    first = decide_ticks(DueSchedule(row), at(count), ZONES, "secret")
    assert len(first.ticks) == BATCH_SIZE
    assert first.row.wake_at == at(BATCH_SIZE) - DECISION_LEAD, "the others have their turn between"
    row, ticks = decided(row, at(count))
    assert [tick.nominal_at for tick in ticks] == [at(n) for n in range(count + 1)]
    assert sum(tick.request is not None for tick in ticks) == jobs
    assert ticks[-1].status is TickStatus.FIRED


def test_another_zone_database_replans() -> None:
    row = scheduled(START, rule=CronRule(expression="0 12 * * *"))
    wrong = replace(row, zone_version="2025z", next_at=at(11 * 3600), wake_at=START)
    step = decide_ticks(DueSchedule(wrong), START, ZONES, "secret")
    assert step.ticks == ()
    assert (step.row.next_at, step.row.zone_version) == (at(12 * 3600), ZONES)


async def test_a_scheduler_that_starts_with_another_zone_database_replans() -> None:
    stage = Stage()
    planned = scheduled(stage.clock.now(), rule=CronRule(expression="0 12 * * *"))
    hour_later = stage.clock.now() + 3600 * SECOND
    old = replace(planned, zone_version="2025z", next_at=hour_later, wake_at=hour_later)
    await stage.store.put_schedules([old])
    await stage.open()
    row = (await stage.store.schedules())[old.name]
    await stage.close()
    assert (row.next_at, row.zone_version) == (planned.next_at, database_version())


def test_a_replaced_schedule_has_missed_nothing_before_that_when_it_is_replanned() -> None:
    row = scheduled(at(3600 * 72), rule=CronRule(expression="@hourly"))
    again = replace(row, zone_version="2025z", last_nominal_at=START, wake_at=row.put_at)
    step = decide_ticks(DueSchedule(again), at(3600 * 72 + 60), ZONES, "secret")
    assert [tick.nominal_at for tick in step.ticks] == [row.put_at]
    decided = DueSchedule(replace(again, last_nominal_at=row.put_at))
    later = decide_ticks(decided, at(3600 * 72 + 60), ZONES, "secret")
    assert later.ticks == ()
