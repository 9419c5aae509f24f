"""Where the scheduler itself fails at one schedule, the door stays open for the others."""

import pytest
from services.scheduler.tests.stage import Stage
from services.scheduler.tests.test_schedules import fates, named, put, send

from warrener_contracts.events import SchedulePutData, ScheduleTriggerRequested
from warrener_scheduler.calendar.ticks import check
from warrener_scheduler.schedules import commands, writer

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
    assert "fired" in await fates(stage, "good")


async def test_a_bug_in_a_trigger_stops_no_other(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await send(stage, put("bad"), then=0.5)

    def broken(*_: object) -> None:
        raise BUG

    monkeypatch.setattr(commands, "_triggered_tick", broken)
    await send(stage, named(ScheduleTriggerRequested, "bad"), put("good"), then=1.5)
    assert "triggered" not in await fates(stage, "bad")
    assert "fired" in await fates(stage, "good")
