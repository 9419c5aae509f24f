"""Commands about schedules: a repeat changes nothing, and an error of ours at one schedule stops no other."""

from datetime import timedelta
from typing import Any

import pytest
from services.scheduler.tests.stage import Stage, at, job_ids, named, put, request, send, statuses, tick_rows

from warrener_calendar.ticks import check
from warrener_contracts import topology
from warrener_contracts.events import (
    Event,
    JobRejected,
    ScheduleCommandData,
    SchedulePauseRequested,
    SchedulePutData,
    ScheduleRemoveRequested,
    ScheduleResumeRequested,
    ScheduleTriggerRequested,
    TickStatus,
)
from warrener_contracts.schedule_rules import CronRule, IntervalRule
from warrener_scheduler.schedules import commands, writer
from warrener_store.schedules.rows import WatchRow


class TestCommands:
    async def test_a_repeat_changes_nothing(self, stage: Stage) -> None:
        await send(stage, put(), put(), then=1.5)
        await send(stage, put(), then=0)
        assert await statuses(stage) == ["fired", "fired"]

    async def test_paused_ticks_stand_in_the_ledger(self, stage: Stage) -> None:
        await send(stage, put(), then=0.5)
        await send(stage, named(SchedulePauseRequested), then=2)
        await send(stage, named(ScheduleResumeRequested), then=1)
        assert await statuses(stage) == ["fired", "skipped", "skipped", "fired"]
        assert (await tick_rows(stage))[1].reason == "the schedule is paused: requested"

    async def test_a_removed_schedule_ticks_no_more_and_its_ledger_stays(self, stage: Stage) -> None:
        await send(stage, put(), then=0.5)
        await send(stage, named(ScheduleRemoveRequested), then=5)
        assert await stage.store.schedules() == {}
        assert await statuses(stage) == ["fired"]

    async def test_a_trigger_requests_one_job_however_often_it_is_sent(self, stage: Stage) -> None:
        await send(stage, put(rule=CronRule(expression="@yearly"), start=at(3600)), then=1)
        trigger = named(ScheduleTriggerRequested)
        await send(stage, trigger, trigger, then=1)
        assert len(job_ids(stage)) == 1
        assert [tick.status for tick in await tick_rows(stage)] == [TickStatus.TRIGGERED]
        assert (await tick_rows(stage))[0].fired_at is not None

    async def test_triggers_in_whole_seconds_take_no_place_of_a_tick_or_of_each_other(
        self, stage: Stage
    ) -> None:
        await send(stage, put(), then=2.5)
        tick = (await tick_rows(stage))[1]
        triggers = [named(ScheduleTriggerRequested, event_id=name) for name in "ab"]
        published = [event.model_copy(update={"time": tick.nominal_at}) for event in triggers]
        await send(stage, *published, *published, then=0.4)
        assert (await statuses(stage)).count("triggered") == 2
        assert set(job_ids(stage)) == {tick.job_id for tick in await tick_rows(stage)}
        assert len(set(job_ids(stage))) == len(await tick_rows(stage)) == 5

    @pytest.mark.parametrize(
        ("command", "detail"),
        [
            (put(rule=CronRule(expression="0 0 31 2 *")), "expected a cron expression"),
            (put(rule=IntervalRule(every=timedelta(milliseconds=99))), "at least 0.1 s"),
            (put(timezone="Europe/Bermuda"), "IANA time zone database"),
            (put(start=at(2), end=at(1)), "never does"),
            (named(ScheduleTriggerRequested, "unknown"), "expected the name of a schedule, got 'unknown'"),
        ],
    )
    async def test_a_schedule_that_is_refused_is_answered_and_parked(
        self, stage: Stage, command: Event[Any], detail: str
    ) -> None:
        await send(stage, command, then=1)
        published = [event for event in stage.published(topology.EVENTS) if isinstance(event, JobRejected)]
        assert detail in published[0].data.detail
        assert [reason for reason, _ in stage.parked()] == ["bad_fields"]
        assert await stage.store.schedules() == {}

    async def test_commands_and_requests_share_one_queue_in_any_mixture(self, stage: Stage) -> None:
        await send(stage, request(1), put(), named(SchedulePauseRequested), request(2), then=0.5)
        assert len(stage.dispatched()) >= 2
        assert (await stage.store.schedules())["tick"].paused


BUG = ZeroDivisionError("a bug")


async def test_a_bug_in_the_check_of_one_schedule_stops_no_other(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(spec: SchedulePutData, *rest: object) -> None:
        if spec.name == "bad":
            raise BUG
        check(spec, *rest)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(writer, "check", broken)
    await send(stage, put("bad"), put("good"), then=1.5)
    assert (await stage.store.schedules()).keys() == {"good"}
    assert "fired" in await statuses(stage, "good")


async def test_a_bug_in_a_trigger_stops_no_other(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await send(stage, put("bad"), then=0.5)

    def broken(*_: object) -> None:
        raise BUG

    monkeypatch.setattr(commands, "_triggered_tick", broken)
    await send(stage, named(ScheduleTriggerRequested, "bad"), put("good"), then=1.5)
    assert "triggered" not in await statuses(stage, "bad")
    assert "fired" in await statuses(stage, "good")


async def expected(stage: Stage) -> list[WatchRow]:
    now = stage.clock.now()
    return [found.row for found in await stage.store.claim_watches(now, now, 10)]


async def test_6_expectations_follow_their_schedules(stage: Stage) -> None:
    hour: dict[str, Any] = {"rule": IntervalRule(every=timedelta(hours=1))}
    await send(stage, put(expect_success_within="2h", pause_after_failures=3, **hour), put("plain", **hour))
    (row,) = await expected(stage)
    assert (row.name, row.pause_after, row.success_within) == ("tick", 3, timedelta(hours=2))
    await send(stage, put(pause_after_failures=5, **hour))
    assert [row.pause_after for row in await expected(stage)] == [5]
    await send(stage, put(**hour))
    assert await expected(stage) == []


async def test_2_a_pause_has_its_reason_in_the_ledger_and_its_end_resets_the_failures(stage: Stage) -> None:
    why = "its last 3 jobs have failed"
    pause = SchedulePauseRequested(id="p", source="test", data=ScheduleCommandData(name="tick", reason=why))
    await send(stage, put(pause_after_failures=3), then=0.5)
    await send(stage, pause, then=1)
    assert (await tick_rows(stage))[1].reason == f"the schedule is paused: {why}"
    await send(stage, named(ScheduleResumeRequested), then=1)
    assert (await stage.store.schedules())["tick"].pause_reason == ""
    assert (await tick_rows(stage))[-1].reason == ""
    (row,) = await expected(stage)
    assert row.since >= at(1.5)
