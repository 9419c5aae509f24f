"""Where the scheduler itself fails at one schedule, the door stays open for the others."""

import pytest
from services.scheduler.tests.stage import Stage
from services.scheduler.tests.test_clock import fates, named, put, say

from warrener_contracts.events import SchedulePutData, ScheduleTriggerRequested
from warrener_scheduler.calendar.ticks import check
from warrener_scheduler.clock import keeping, putting

BUG = ZeroDivisionError("a bug")


async def test_a_bug_in_the_check_of_one_schedule_stops_no_other(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(asked: SchedulePutData, *rest: object) -> None:
        if asked.name == "bad":
            raise BUG
        check(asked, *rest)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(putting, "check", broken)
    await say(stage, put("bad"), put("good"), then=1.5)
    assert (await stage.store.schedules()).keys() == {"good"}
    assert "fired" in await fates(stage, "good")


async def test_a_bug_in_a_trigger_stops_no_other(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await say(stage, put("bad"), then=0.5)

    def broken(*_: object) -> None:
        raise BUG

    monkeypatch.setattr(keeping, "_triggered", broken)
    await say(stage, named(ScheduleTriggerRequested, "bad"), put("good"), then=1.5)
    assert "triggered" not in await fates(stage, "bad")
    assert "fired" in await fates(stage, "good")
