"""Backfills request past ticks, each at most once, batch by batch, at a rate; and puts from long ago."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from services.scheduler.tests.stage import SECOND, Stage, at, changed, named, put
from services.scheduler.tests.test_template_variables import paths

from warrener_contracts import events
from warrener_contracts.identity import tick_job_id
from warrener_contracts.schedule_rules import IntervalRule, OnceRule, Rule
from warrener_contracts.triggers import EventRule
from warrener_scheduler.decisions.backfill import BATCH_SIZE, batch_times, is_backfilled, plan_batch
from warrener_scheduler.decisions.ticks import MAX_PUT_BACKLOG, decide_ticks, plan_first_tick
from warrener_store.schedules.rows import DueSchedule, ScheduleRow

HOUR = timedelta(hours=1)
HOURLY = IntervalRule(every=HOUR, offset=SECOND)  # the stage is open a second past midnight


def backfill(
    begin: datetime, end: datetime, name: str = "tick", **more: Any
) -> events.ScheduleBackfillRequested:
    data = events.ScheduleBackfillRequestedData(name=name, start=begin, end=end, reason="mended", **more)
    return events.ScheduleBackfillRequested(id=f"backfill-{begin}", source="test", data=data)


class TestBackfill:
    async def test_ticks_before_the_put_are_requested_under_the_ids_they_would_have_had(
        self, stage: Stage
    ) -> None:
        now = stage.clock.now()
        await stage.publish(put(rule=HOURLY), then=0.5)
        fired = stage.job_ids()
        await stage.publish(backfill(now - 3 * HOUR, now - HOUR), then=1)
        past, secret = [now - n * HOUR for n in (3, 2, 1)], await stage.secret()
        assert stage.job_ids() == [*fired, *(tick_job_id("tick", moment, secret) for moment in past)]
        ticks = await stage.tick_rows()
        assert [tick.nominal_at for tick in ticks[:3]] == past
        assert all(is_backfilled(tick) and tick.request is None for tick in ticks[:3])
        assert ticks[0].reason == "backfilled: mended"
        published = [(one.data.status, one.data.reason) for one in stage.all_of(events.ScheduleTicked)]
        assert published.count((events.TickStatus.CAUGHT_UP, "backfilled: mended")) == 3

    async def test_each_names_the_tick_before_it_also_before_the_schedule_was_put(self, stage: Stage) -> None:
        now = stage.clock.now()
        path = {"path": "{{ tick.previous_at | %H }} to {{ tick.nominal_at | %H }}"}
        hourly = changed(put(rule=HOURLY), arguments=path)
        await stage.publish(hourly, backfill(now - 3 * HOUR, now - HOUR), then=2)
        assert (await paths(stage))[:3] == ["20 to 21", "21 to 22", "22 to 23"]

    async def test_ticks_with_a_job_are_passed_over_and_skipped_ones_are_requested(
        self, stage: Stage
    ) -> None:
        begun = stage.clock.now()
        await stage.publish(put(), then=0.5)
        await stage.publish(named(events.SchedulePauseRequested), then=2)
        await stage.publish(named(events.ScheduleResumeRequested), then=0.8)
        assert await stage.statuses() == ["fired", "skipped", "skipped", "fired"]
        await stage.publish(backfill(begun, begun + 3 * SECOND, rate=100), then=0.5)
        ticks = (await stage.tick_rows())[:4]
        assert [tick.status for tick in ticks] == ["fired", "caught_up", "caught_up", "fired"]
        assert ticks[1].reason == "backfilled: mended; it was skipped (the schedule is paused: requested)"

    async def test_a_repeated_backfill_requests_nothing_twice(self, stage: Stage) -> None:
        now = stage.clock.now()
        again = backfill(now - 5 * HOUR, now - HOUR)
        await stage.publish(put(rule=HOURLY), again, then=2)
        jobs = stage.job_ids()
        assert len(jobs) == len(set(jobs)) == 6
        await stage.publish(again, backfill(now - 9 * HOUR, now - HOUR), then=2)
        assert len(stage.job_ids()) == len(set(stage.job_ids())) == 10

    async def test_it_goes_on_portion_by_portion_to_the_end(self, stage: Stage) -> None:
        now = stage.clock.now()
        begin = now - (BATCH_SIZE + 500) * HOUR
        await stage.publish(put(rule=HOURLY), backfill(begin, now - HOUR, rate=1000), then=5)
        assert len(set(stage.job_ids())) == BATCH_SIZE + 501

    async def test_jobs_come_at_the_rate(self, stage: Stage) -> None:
        now = stage.clock.now()
        await stage.publish(put(rule=HOURLY), backfill(now - 10 * HOUR, now - HOUR, rate=2), then=1.2)
        assert len(stage.job_ids()) == 1 + 3
        await stage.clock.advance(10)
        assert len(stage.job_ids()) == 1 + 10

    async def test_what_is_yet_to_come_is_left_to_the_clock(self, stage: Stage) -> None:
        now = stage.clock.now()
        await stage.publish(put(rule=HOURLY), then=1)
        await stage.publish(backfill(now - HOUR, now + 9 * HOUR), then=1)
        assert await stage.statuses() == ["caught_up", "fired"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "rule", "hours", "more", "expected"),
        [
            ("unknown", HOURLY, 1, {}, "expected the name of a schedule, got 'unknown': put it first"),
            (
                "tick",
                IntervalRule(every=SECOND),
                24,
                {},
                f"expected a span with at most {events.MAX_BACKFILL_TICKS} ticks",
            ),
            ("tick", EventRule(key="job.dead.#"), 1, {}, "got 'tick', which waits for events"),
            ("tick", HOURLY, 9, {"rate": 1e-12}, "expected a rate of at least one job a day"),
        ],
    )
    async def test_what_cannot_be_done_is_answered(
        self, stage: Stage, *, name: str, rule: Rule, hours: int, more: dict[str, Any], expected: str
    ) -> None:
        now = stage.clock.now()
        again = backfill(now - hours * HOUR, now, name, reply_to="history", **more)
        await stage.publish(put(rule=rule), again, then=0.5)
        assert expected in stage.answer("history", events.JobRejected).data.detail

    def test_a_span_that_ends_before_it_begins_is_no_request(self) -> None:
        now = datetime.fromisoformat("2026-01-01T00:00:00Z")
        with pytest.raises(ValueError, match="expected an end that is not before"):
            backfill(now, now - HOUR)


class TestPortions:
    def planned(self, hours: int) -> tuple[ScheduleRow, events.ScheduleBackfillRequestedData, list[datetime]]:
        now = at(1)
        spec = events.SchedulePutData(name="tick", rule=HOURLY, job_type="flights.load")
        row = ScheduleRow(definition=spec, put_at=now, zone_version="2026a", next_at=now + HOUR)
        data = backfill(now - hours * HOUR, now - HOUR).data
        return row, data, batch_times(row, data, now)

    def test_a_portion_begun_again_after_a_crash_keeps_the_turns_of_the_rest(self) -> None:
        now, (row, data, times) = at(1), self.planned(BATCH_SIZE + 10)
        first = plan_batch(row, data, times, {}, now, secret="s")
        again = plan_batch(row, data, times, {tick.nominal_at: tick for tick in first.ticks}, now, secret="s")
        assert (again.ticks, again.passed_over, again.rest) == ((), BATCH_SIZE, first.rest)
        assert first.rest is not None
        turns = [tick.wake_at for tick in first.ticks]
        assert first.rest.not_before == now + BATCH_SIZE * timedelta(seconds=0.1)
        assert turns == [now + n * timedelta(seconds=0.1) for n in range(BATCH_SIZE)]

    def test_what_is_published_does_not_hold_back_the_rest(self) -> None:
        now, (row, data, times) = at(1), self.planned(3)
        first = plan_batch(row, data, times, {}, now, secret="s")
        done = {tick.nominal_at: replace(tick, wake_at=None, request=None) for tick in first.ticks[:1]}
        rest = plan_batch(row, data, times, done, now, secret="s").ticks
        assert [tick.nominal_at for tick in rest] == times[1:]


class TestPutsFromLongAgo:
    async def test_ticks_since_then_are_accounted_for_a_day_and_no_more(self, stage: Stage) -> None:
        now = stage.clock.now()
        old = put(rule=HOURLY).model_copy(update={"time": now - timedelta(days=9000)})
        await stage.publish(old, then=2)
        ticks = await stage.tick_rows()
        assert ticks[0].nominal_at >= now - MAX_PUT_BACKLOG
        assert len(ticks) == MAX_PUT_BACKLOG // HOUR + 1
        assert (await stage.store.schedules())["tick"].put_at == old.time, "its time orders it among others"

    def test_what_is_planned_is_accounted_for_though_the_zones_changed_while_nobody_looked(self) -> None:
        """The scheduler was away for a week before the first tick of it, and came back with another one."""
        spec = events.SchedulePutData(
            name="tick", rule=IntervalRule(every=timedelta(days=1)), job_type="flights.load"
        )
        row = plan_first_tick(ScheduleRow(definition=spec, put_at=at(1), zone_version="2026a"), at(1))
        found = decide_ticks(DueSchedule(row), at(1) + timedelta(days=7), "2026b", "s")
        assert [tick.nominal_at for tick in found.ticks] == [at(86_400 * day) for day in range(1, 8)]

    async def test_a_single_tick_is_not_lost_however_late_its_put_arrives(self, stage: Stage) -> None:
        rule = OnceRule(after=HOUR)
        old = put(rule=rule).model_copy(update={"time": stage.clock.now() - timedelta(days=30)})
        await stage.publish(old, then=1)
        assert await stage.statuses() == ["caught_up"]
