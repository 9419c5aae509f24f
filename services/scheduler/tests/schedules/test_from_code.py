"""Schedules that agents declare in their code: adopted once each, and never against an operator."""

from datetime import timedelta
from typing import Any

import pytest
from services.scheduler.tests.stage import Stage, declaration, named, put, send

from warrener_contracts.events import (
    AgentAnnounced,
    AgentAnnouncedData,
    ScheduleDeclaration,
    SchedulePauseRequested,
    SchedulePutData,
    ScheduleRemoveRequested,
)
from warrener_contracts.schedule_rules import CronRule, IntervalRule, ScheduleChoices
from warrener_contracts.schedule_words import OverlapPolicy
from warrener_scheduler.schedules.from_code import declaration_digest

MINUTE = timedelta(minutes=1)


def declares(every: timedelta = MINUTE, revision: int = 0, **more: Any) -> ScheduleDeclaration:
    fields: dict[str, Any] = {"name": "tick", "rule": IntervalRule(every=every), "job_type": "flights.load"}
    return ScheduleDeclaration(schedule=SchedulePutData(**(fields | more)), revision=revision)


def announced(stage: Stage, *schedules: ScheduleDeclaration, agent: str = "agent-1") -> AgentAnnounced:
    data = AgentAnnouncedData(
        agent_id=agent, queues=("default",), job_types=(declaration(),), schedules=schedules
    )
    now = stage.clock.now()
    return AgentAnnounced(id=f"{agent}-{now.isoformat()}", source=agent, time=now, data=data)


async def send_declared(stage: Stage, *schedules: ScheduleDeclaration, agent: str = "agent-1") -> None:
    await send(stage, announced(stage, *schedules, agent=agent), then=1)


async def every(stage: Stage) -> timedelta:
    rule = (await stage.store.schedules())["tick"].definition.rule
    assert isinstance(rule, IntervalRule)
    return rule.every


async def test_a_declaration_is_taken_up_and_ticks(stage: Stage) -> None:
    await send_declared(stage, declares())
    assert (await stage.store.schedules())["tick"].definition.owner == "code"
    await stage.clock.advance(120)
    assert await stage.store.ticks_of("tick") != []


async def test_what_changes_in_the_code_changes_the_schedule(stage: Stage) -> None:
    await send_declared(stage, declares())
    await send_declared(stage, declares(2 * MINUTE))
    assert await every(stage) == 2 * MINUTE


async def test_agents_of_two_releases_that_restart_in_turns_change_nothing(stage: Stage) -> None:
    await send_declared(stage, declares(), agent="old")
    for _ in range(3):
        await send_declared(stage, declares(2 * MINUTE), agent="new")
        await send_declared(stage, declares(), agent="old")
    assert await every(stage) == 2 * MINUTE


async def test_an_earlier_declaration_is_new_in_another_edition(stage: Stage) -> None:
    await send_declared(stage, declares())
    await send_declared(stage, declares(2 * MINUTE))
    await send_declared(stage, declares(revision=1))
    assert await every(stage) == MINUTE


async def test_an_operators_pause_survives_restarts_and_changes_of_the_code(stage: Stage) -> None:
    await send_declared(stage, declares())
    await send(stage, named(SchedulePauseRequested))
    await send_declared(stage, declares())
    await send_declared(stage, declares(2 * MINUTE))
    assert (await stage.store.schedules())["tick"].paused


async def test_an_operators_put_is_left_alone(stage: Stage) -> None:
    await send_declared(stage, declares())
    await send(stage, put(rule=IntervalRule(every=9 * MINUTE)))
    await send_declared(stage, declares())
    await send_declared(stage, declares(2 * MINUTE))
    assert await every(stage) == 9 * MINUTE


async def test_what_an_operator_has_removed_stays_removed_until_the_code_changes(stage: Stage) -> None:
    await send_declared(stage, declares())
    await send(stage, named(ScheduleRemoveRequested))
    await send_declared(stage, declares())
    assert await stage.store.schedules() == {}
    await send_declared(stage, declares(2 * MINUTE))
    assert await every(stage) == 2 * MINUTE


async def test_once_an_operators_schedule_is_gone_the_code_has_its_turn(stage: Stage) -> None:
    await send(stage, put(rule=IntervalRule(every=9 * MINUTE)))
    await send_declared(stage, declares())
    assert await every(stage) == 9 * MINUTE
    await send(stage, named(ScheduleRemoveRequested))
    await send_declared(stage, declares())
    assert await every(stage) == MINUTE


async def test_a_declaration_that_vanished_is_reported_and_goes_on(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    await send_declared(stage, declares())
    await send_declared(stage)
    assert "tick" in await stage.store.schedules()
    assert "schedules.vanished" in "".join(capsys.readouterr())


async def test_a_refused_declaration_does_not_stop_the_others(stage: Stage) -> None:
    never = declares(name="never", rule=CronRule(expression="0 0 31 2 *"))
    await send_declared(stage, never, declares())
    assert set(await stage.store.schedules()) == {"tick"}


class TestFingerprints:
    def test_defaults_do_not_change_the_digest(self) -> None:
        assert declaration_digest(declares()) == declaration_digest(
            declares(choices=ScheduleChoices(overlap=OverlapPolicy.ALLOW))
        )
        assert declaration_digest(declares()) == declaration_digest(
            declares(owner="someone", reply_to="desk")
        )

    def test_everything_else_counts(self) -> None:
        declarations = [
            declares(),
            declares(revision=1),
            declares(2 * MINUTE),
            declares(arguments={"path": "b.csv"}),
            declares(timezone="Europe/Berlin"),
            declares(choices=ScheduleChoices(overlap=OverlapPolicy.SKIP)),
        ]
        assert len({declaration_digest(one) for one in declarations}) == len(declarations)
