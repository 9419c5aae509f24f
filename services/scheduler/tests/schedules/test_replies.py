"""Schedule commands are answered; a rejected tick has its reason, and many in a row pause the schedule."""

from datetime import timedelta
from typing import Any

import pytest
from services.scheduler.tests.stage import Stage, named, put, request, send, statuses, tick_rows

from warrener_contracts.events import (
    CommandHandled,
    Event,
    JobRejected,
    SchedulePauseRequested,
    SchedulePut,
    ScheduleRemoveRequested,
    ScheduleResumeRequested,
    ScheduleTriggerRequested,
)
from warrener_contracts.schedule_rules import IntervalRule
from warrener_store.incidents.rows import IncidentFilter

COMMANDS = (
    SchedulePauseRequested,
    ScheduleResumeRequested,
    ScheduleTriggerRequested,
    ScheduleRemoveRequested,
)
RARELY = IntervalRule(every=timedelta(hours=1))


def changed(event: Event[Any], **fields: Any) -> Event[Any]:
    return event.model_copy(update={"data": event.data.model_copy(update=fields)})


def replies(stage: Stage) -> list[CommandHandled]:
    return [event for event in stage.answers("desk") if isinstance(event, CommandHandled)]


@pytest.mark.parametrize("kind", COMMANDS)
async def test_a_command_that_is_carried_out_is_answered(stage: Stage, kind: Any) -> None:
    await send(stage, put(rule=RARELY), then=1)
    await send(stage, changed(named(kind), reply_to="desk"), then=1)
    stored, handled = replies(stage)
    assert (stored.data.command, stored.data.accepted) == ("schedule.put.v1", True)
    assert (handled.data.command_id, handled.data.command_source) == ("1", "test")
    assert (handled.data.accepted, handled.data.detail) == (True, "")


@pytest.mark.parametrize("kind", COMMANDS)
async def test_an_unknown_name_is_refused_with_one_line(stage: Stage, kind: Any) -> None:
    await send(stage, changed(named(kind, "nigthly"), reply_to="desk"), then=1)
    [answer] = stage.answers("desk")
    assert isinstance(answer, CommandHandled | JobRejected)
    assert answer.data.detail == "expected the name of a schedule, got 'nigthly': put it first"
    if isinstance(answer, CommandHandled):
        assert not answer.data.accepted
        assert stage.parked() == []


async def test_nobody_is_answered_who_gave_no_address(stage: Stage) -> None:
    await send(stage, changed(put(rule=RARELY), reply_to=None), named(SchedulePauseRequested), then=1)
    assert replies(stage) == []
    assert (await stage.store.schedules())["tick"].paused


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"job_type": "no.such"}, "expected a job type that an agent has announced, got 'no.such'"),
        ({"arguments": {}}, "arguments: expected 'path', got none"),
        ({"arguments": {"path": 7}}, "arguments.path: expected string, got 7"),
    ],
)
async def test_a_checked_put_whose_requests_would_be_rejected_is_refused(
    stage: Stage, fields: dict[str, Any], detail: str
) -> None:
    await send(stage, changed(put(rule=RARELY), **fields), then=1)
    assert set(await stage.store.schedules()) == {"tick"}, "unchecked, as of a file that is put before agents"
    await send(stage, named(ScheduleRemoveRequested), then=1)
    await send(stage, changed(put(rule=RARELY), checked=True, **fields), then=1)
    assert await stage.store.schedules() == {}
    [refused] = [event for event in stage.answers("desk") if isinstance(event, JobRejected)]
    assert detail in refused.data.detail


async def test_the_arguments_are_checked_as_a_tick_fills_them_and_the_check_is_not_stored(
    stage: Stage,
) -> None:
    wanted = changed(put(rule=RARELY), checked=True, arguments={"path": "{{ tick.run }}.csv"})
    await send(stage, wanted, then=1)
    definition = (await stage.store.schedules())["tick"].definition
    assert (definition.checked, definition.reply_to) == (False, None)
    assert definition.arguments == {"path": "{{ tick.run }}.csv"}


async def test_a_rejected_tick_has_the_reason_and_ten_in_a_row_pause_the_schedule(stage: Stage) -> None:
    every_second = changed(put(), job_type="no.such")
    assert isinstance(every_second, SchedulePut)
    await send(stage, every_second, then=5)
    rejected = await tick_rows(stage)
    assert all(tick.reason.startswith("rejected: expected a job type") for tick in rejected[:-1])
    assert not (await stage.store.schedules())["tick"].paused
    await stage.clock.advance(15)
    row = (await stage.store.schedules())["tick"]
    because = "expected a job type that an agent has announced, got 'no.such': start an agent for it"
    assert row.paused
    assert row.pause_reason == f"the requests of its last 10 ticks were rejected: {because}"
    [incident] = await stage.store.escalations.incidents(IncidentFilter())
    assert (incident.kind, incident.subject) == ("schedule.paused", "tick")
    assert f"ticks were rejected: {because}; then resume it" in str(incident.sample["text"])
    assert (await statuses(stage)).count("fired") in {10, 11}
    await send(stage, named(ScheduleResumeRequested), then=4)
    assert not (await stage.store.schedules())["tick"].paused, "the count begins again"


async def test_an_accepted_request_begins_the_count_again(stage: Stage) -> None:
    await send(stage, put(), then=8)
    await send(stage, changed(put(), arguments={}), then=8)
    await send(stage, request(1), changed(put(), arguments={"path": "b.csv"}), then=5)
    await send(stage, changed(put(), arguments={}), then=8)
    assert not (await stage.store.schedules())["tick"].paused
