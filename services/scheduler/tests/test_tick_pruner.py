"""The ledger does not grow for ever (point 5), and the supervisor is told what owners expect."""

from datetime import timedelta
from typing import Any

from services.scheduler.tests.stage import Stage
from services.scheduler.tests.test_schedules import at, ledger, named, put, send

from warrener_contracts.events import ScheduleCommandData, SchedulePauseRequested, ScheduleResumeRequested
from warrener_contracts.schedule_rules import IntervalRule
from warrener_scheduler.schedules.tick_pruner import TickPruner
from warrener_store.schedules.rows import WatchRow


async def test_5_old_ticks_are_forgotten_and_the_newest_stay(stage: Stage) -> None:
    await send(stage, put(), put("rare", rule=IntervalRule(every=timedelta(seconds=400))), then=600)
    tick_pruner = TickPruner(stage.store, stage.clock, keep=timedelta(seconds=100), newest=5)
    for _ in range(2):
        await tick_pruner.run_once()
    assert [tick.nominal_at for tick in await ledger(stage)] == [at(n) for n in range(501, 602)]
    assert len(await ledger(stage, "rare")) == 1


async def test_5_more_than_one_portion_is_forgotten_in_portions(stage: Stage) -> None:
    await send(stage, put(rule=IntervalRule(every=timedelta(seconds=0.1))), then=800)
    tick_pruner = TickPruner(stage.store, stage.clock, keep=timedelta(seconds=1), newest=1)
    await tick_pruner.run_once()
    left = len(await ledger(stage))
    assert left > 100, "the rest is left to the next look"
    for _ in range(2):
        await tick_pruner.run_once()
    remaining = await ledger(stage)
    assert remaining
    assert min(tick.nominal_at for tick in remaining) >= stage.clock.now() - timedelta(seconds=1)


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
    assert (await ledger(stage))[1].reason == f"the schedule is paused: {why}"
    await send(stage, named(ScheduleResumeRequested), then=1)
    assert (await stage.store.schedules())["tick"].paused_why == ""
    assert (await ledger(stage))[-1].reason == ""
    (row,) = await expected(stage)
    assert row.since >= at(1.5)
