"""Schedules that agents declare in their code: taken up once each, and never against an operator."""

from datetime import timedelta
from typing import Any

import pytest
from services.scheduler.tests.stage import Stage, declaration
from services.scheduler.tests.test_clock import named, put, say

from warrener_contracts.events import (
    AgentAnnounced,
    AgentAnnouncedData,
    ScheduleDeclaration,
    SchedulePauseRequested,
    SchedulePutData,
    ScheduleRemoveRequested,
)
from warrener_contracts.schedule_rules import ScheduleChoices, CronRule, IntervalRule, OverlapPolicy
from warrener_scheduler.clock.adoption import fingerprint_of
from warrener_store.schedules.rows import ScheduleRow

MINUTE = timedelta(minutes=1)


def declares(every: timedelta = MINUTE, edition: int = 0, **more: Any) -> ScheduleDeclaration:
    fields: dict[str, Any] = {"name": "tick", "rule": IntervalRule(every=every), "job_type": "flights.load"}
    return ScheduleDeclaration(schedule=SchedulePutData(**(fields | more)), edition=edition)


def announced(stage: Stage, *schedules: ScheduleDeclaration, agent: str = "agent-1") -> AgentAnnounced:
    data = AgentAnnouncedData(
        agent_id=agent, queues=("default",), job_types=(declaration(),), schedules=schedules
    )
    now = stage.clock.now()
    return AgentAnnounced(id=f"{agent}-{now.isoformat()}", source=agent, time=now, data=data)


async def say_declared(stage: Stage, *schedules: ScheduleDeclaration, agent: str = "agent-1") -> None:
    await say(stage, announced(stage, *schedules, agent=agent), then=1)


async def kept(stage: Stage) -> ScheduleRow | None:
    return (await stage.store.schedules(["tick"])).get("tick")


async def every(stage: Stage) -> timedelta:
    row = await kept(stage)
    assert row is not None
    assert isinstance(row.asked.rule, IntervalRule)
    return row.asked.rule.every


async def test_a_declaration_is_taken_up_and_ticks(stage: Stage) -> None:
    await say_declared(stage, declares())
    row = await kept(stage)
    assert row is not None
    assert row.asked.owner == "code"
    await stage.clock.advance(120)
    assert await stage.store.ticks_of("tick") != []


async def test_what_changes_in_the_code_changes_the_schedule(stage: Stage) -> None:
    await say_declared(stage, declares())
    await say_declared(stage, declares(2 * MINUTE))
    assert await every(stage) == 2 * MINUTE


async def test_agents_of_two_releases_that_restart_in_turns_change_nothing(stage: Stage) -> None:
    await say_declared(stage, declares(), agent="old")
    for _ in range(3):
        await say_declared(stage, declares(2 * MINUTE), agent="new")
        await say_declared(stage, declares(), agent="old")
    assert await every(stage) == 2 * MINUTE


async def test_what_was_said_before_is_news_again_in_another_edition(stage: Stage) -> None:
    await say_declared(stage, declares())
    await say_declared(stage, declares(2 * MINUTE))
    await say_declared(stage, declares(edition=1))
    assert await every(stage) == MINUTE


async def test_an_operators_pause_survives_restarts_and_changes_of_the_code(stage: Stage) -> None:
    await say_declared(stage, declares())
    await say(stage, named(SchedulePauseRequested))
    await say_declared(stage, declares())
    await say_declared(stage, declares(2 * MINUTE))
    row = await kept(stage)
    assert row is not None
    assert row.paused


async def test_an_operators_put_is_left_alone(stage: Stage) -> None:
    await say_declared(stage, declares())
    await say(stage, put(rule=IntervalRule(every=9 * MINUTE)))
    await say_declared(stage, declares())
    await say_declared(stage, declares(2 * MINUTE))
    assert await every(stage) == 9 * MINUTE


async def test_what_an_operator_has_removed_stays_removed_until_the_code_says_something_new(
    stage: Stage,
) -> None:
    await say_declared(stage, declares())
    await say(stage, named(ScheduleRemoveRequested))
    await say_declared(stage, declares())
    assert await kept(stage) is None
    await say_declared(stage, declares(2 * MINUTE))
    assert await every(stage) == 2 * MINUTE


async def test_once_an_operators_schedule_is_gone_the_code_has_its_turn(stage: Stage) -> None:
    await say(stage, put(rule=IntervalRule(every=9 * MINUTE)))
    await say_declared(stage, declares())
    assert await every(stage) == 9 * MINUTE
    await say(stage, named(ScheduleRemoveRequested))
    await say_declared(stage, declares())
    assert await every(stage) == MINUTE


async def test_a_declaration_that_vanished_is_reported_and_goes_on(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    await say_declared(stage, declares())
    await say_declared(stage)
    assert await kept(stage) is not None
    assert "schedules.vanished" in "".join(capsys.readouterr())


async def test_one_that_cannot_be_kept_does_not_keep_the_others_away(stage: Stage) -> None:
    never = declares(name="never", rule=CronRule(expression="0 0 31 2 *"))
    await say_declared(stage, never, declares())
    assert set(await stage.store.schedules()) == {"tick"}


class TestFingerprints:
    def test_what_is_as_usual_says_nothing(self) -> None:
        assert fingerprint_of(declares()) == fingerprint_of(declares(choices=ScheduleChoices(overlap=OverlapPolicy.ALLOW)))
        assert fingerprint_of(declares()) == fingerprint_of(declares(owner="someone", reply_to="desk"))

    def test_everything_else_counts(self) -> None:
        said = [
            declares(),
            declares(edition=1),
            declares(2 * MINUTE),
            declares(arguments={"path": "b.csv"}),
            declares(timezone="Europe/Berlin"),
            declares(choices=ScheduleChoices(overlap=OverlapPolicy.SKIP)),
        ]
        assert len({fingerprint_of(one) for one in said}) == len(said)
