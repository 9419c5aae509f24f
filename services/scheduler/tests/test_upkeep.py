"""The ledger does not grow for ever (point 5), and the supervisor is told what owners expect."""

from datetime import timedelta
from typing import Any

from services.scheduler.tests.stage import Stage
from services.scheduler.tests.test_clock import at, ledger, named, put, say

from warrener_contracts.events import ScheduleCommandData, SchedulePauseRequested, ScheduleResumeRequested
from warrener_contracts.schedule_rules import IntervalRule
from warrener_scheduler.clock.upkeep import Upkeep
from warrener_store.schedules.watches import WatchRow


async def test_5_old_ticks_are_forgotten_and_the_newest_stay(stage: Stage) -> None:
    await say(stage, put(), put("rare", rule=IntervalRule(every=timedelta(seconds=400))), then=600)
    upkeep = Upkeep(stage.store, stage.clock, keep=timedelta(seconds=100), newest=5)
    for _ in range(2):
        await upkeep.look()
    assert [tick.nominal_at for tick in await ledger(stage)] == [at(n) for n in range(501, 602)]
    assert len(await ledger(stage, "rare")) == 1


async def test_5_more_than_one_portion_is_forgotten_in_portions(stage: Stage) -> None:
    await say(stage, put(rule=IntervalRule(every=timedelta(seconds=0.1))), then=800)
    upkeep = Upkeep(stage.store, stage.clock, keep=timedelta(seconds=1), newest=1)
    await upkeep.look()
    left = len(await ledger(stage))
    assert left > 100, "the rest is left to the next look"
    for _ in range(2):
        await upkeep.look()
    kept = await ledger(stage)
    assert kept
    assert min(tick.nominal_at for tick in kept) >= stage.clock.now() - timedelta(seconds=1)


async def expected(stage: Stage) -> list[WatchRow]:
    now = stage.clock.now()
    return [found.row for found in await stage.store.claim_watches(now, now, 10)]


async def test_6_what_owners_expect_is_kept_in_step_with_their_schedules(stage: Stage) -> None:
    hour: dict[str, Any] = {"rule": IntervalRule(every=timedelta(hours=1))}
    await say(stage, put(expect_success_within="2h", pause_after_failures=3, **hour), put("plain", **hour))
    (row,) = await expected(stage)
    assert (row.name, row.pause_after, row.success_within) == ("tick", 3, timedelta(hours=2))
    await say(stage, put(pause_after_failures=5, **hour))
    assert [row.pause_after for row in await expected(stage)] == [5]
    await say(stage, put(**hour))
    assert await expected(stage) == []


async def test_2_a_pause_says_why_in_the_ledger_and_its_end_counts_failures_anew(stage: Stage) -> None:
    why = "its last 3 jobs have failed"
    pause = SchedulePauseRequested(id="p", source="test", data=ScheduleCommandData(name="tick", reason=why))
    await say(stage, put(pause_after_failures=3), then=0.5)
    await say(stage, pause, then=1)
    assert (await ledger(stage))[1].reason == f"the schedule is paused: {why}"
    await say(stage, named(ScheduleResumeRequested), then=1)
    assert (await stage.store.schedules())["tick"].paused_why == ""
    assert (await ledger(stage))[-1].reason == ""
    (row,) = await expected(stage)
    assert row.since >= at(1.5)
