"""Commands about schedules: a repeat changes nothing, each is answered, an error at one stops no other."""

from datetime import timedelta
from typing import Any

import pytest
from services.scheduler.tests.stage import Stage, at, job_ids, named, put, request, send, statuses, tick_rows

from warrener_calendar.ticks import check
from warrener_contracts import events, topology
from warrener_contracts.identity import job_id_of
from warrener_contracts.messages import BATCH_TYPE, Message, build_message
from warrener_contracts.schedule_rules import CronRule, IntervalRule
from warrener_scheduler.schedules import commands, writer
from warrener_store.incidents.rows import IncidentFilter
from warrener_store.schedules.rows import WatchRow


class TestCommands:
    async def test_a_repeat_changes_nothing(self, stage: Stage) -> None:
        await send(stage, put(), put(), then=1.5)
        await send(stage, put(), then=0)
        assert await statuses(stage) == ["fired", "fired"]

    async def test_paused_ticks_stand_in_the_ledger(self, stage: Stage) -> None:
        await send(stage, put(), then=0.5)
        await send(stage, named(events.SchedulePauseRequested), then=2)
        await send(stage, named(events.ScheduleResumeRequested), then=1)
        assert await statuses(stage) == ["fired", "skipped", "skipped", "fired"]
        assert (await tick_rows(stage))[1].reason == "the schedule is paused: requested"

    async def test_a_removed_schedule_ticks_no_more_and_its_ledger_stays(self, stage: Stage) -> None:
        await send(stage, put(), then=0.5)
        await send(stage, named(events.ScheduleRemoveRequested), then=5)
        assert await stage.store.schedules() == {}
        assert await statuses(stage) == ["fired"]

    async def test_a_trigger_requests_one_job_however_often_it_is_sent(self, stage: Stage) -> None:
        await send(stage, put(rule=CronRule(expression="@yearly"), start=at(3600)), then=1)
        trigger = named(events.ScheduleTriggerRequested)
        await send(stage, trigger, trigger, then=1)
        assert len(job_ids(stage)) == 1
        assert [tick.status for tick in await tick_rows(stage)] == [events.TickStatus.TRIGGERED]
        assert (await tick_rows(stage))[0].fired_at is not None

    async def test_triggers_in_whole_seconds_take_no_place_of_a_tick_or_of_each_other(
        self, stage: Stage
    ) -> None:
        await send(stage, put(), then=2.5)
        tick = (await tick_rows(stage))[1]
        triggers = [named(events.ScheduleTriggerRequested, event_id=name) for name in "ab"]
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
            (
                named(events.ScheduleTriggerRequested, "unknown"),
                "expected the name of a schedule, got 'unknown'",
            ),
        ],
    )
    async def test_a_schedule_that_is_refused_is_answered_and_parked(
        self, stage: Stage, command: events.Event[Any], detail: str
    ) -> None:
        await send(stage, command, then=1)
        assert detail in stage.all_of(events.JobRejected)[0].data.detail
        assert [reason for reason, _ in stage.parked()] == ["bad_fields"]
        assert await stage.store.schedules() == {}

    async def test_commands_and_requests_share_one_queue_in_any_mixture(self, stage: Stage) -> None:
        await send(stage, request(1), put(), named(events.SchedulePauseRequested), request(2), then=0.5)
        assert len(stage.dispatched()) >= 2
        assert (await stage.store.schedules())["tick"].paused


BUG = ZeroDivisionError("a bug")


async def test_a_bug_in_the_check_of_one_schedule_stops_no_other(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(spec: events.SchedulePutData, *rest: object) -> None:
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
    await send(stage, named(events.ScheduleTriggerRequested, "bad"), put("good"), then=1.5)
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
    pause = events.SchedulePauseRequested(
        id="p", source="test", data=events.ScheduleCommandData(name="tick", reason=why)
    )
    await send(stage, put(pause_after_failures=3), then=0.5)
    await send(stage, pause, then=1)
    assert (await tick_rows(stage))[1].reason == f"the schedule is paused: {why}"
    await send(stage, named(events.ScheduleResumeRequested), then=1)
    assert (await stage.store.schedules())["tick"].pause_reason == ""
    assert (await tick_rows(stage))[-1].reason == ""
    (row,) = await expected(stage)
    assert row.since >= at(1.5)


COMMANDS = (
    events.SchedulePauseRequested,
    events.ScheduleResumeRequested,
    events.ScheduleTriggerRequested,
    events.ScheduleRemoveRequested,
)
RARELY = IntervalRule(every=timedelta(hours=1))


def changed(event: events.Event[Any], **fields: Any) -> events.Event[Any]:
    return event.model_copy(update={"data": event.data.model_copy(update=fields)})


def replies(stage: Stage) -> list[events.CommandHandled]:
    return [event for event in stage.answers("desk") if isinstance(event, events.CommandHandled)]


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
    assert isinstance(answer, events.CommandHandled | events.JobRejected)
    assert answer.data.detail == "expected the name of a schedule, got 'nigthly': put it first"
    if isinstance(answer, events.CommandHandled):
        assert not answer.data.accepted
        assert stage.parked() == []


async def test_nobody_is_answered_who_gave_no_address(stage: Stage) -> None:
    await send(stage, changed(put(rule=RARELY), reply_to=None), named(events.SchedulePauseRequested), then=1)
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
    await send(stage, named(events.ScheduleRemoveRequested), then=1)
    await send(stage, changed(put(rule=RARELY), checked=True, **fields), then=1)
    assert await stage.store.schedules() == {}
    [refused] = [event for event in stage.answers("desk") if isinstance(event, events.JobRejected)]
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
    assert isinstance(every_second, events.SchedulePut)
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
    await send(stage, named(events.ScheduleResumeRequested), then=4)
    assert not (await stage.store.schedules())["tick"].paused, "the count begins again"


async def test_an_accepted_request_begins_the_count_again(stage: Stage) -> None:
    await send(stage, put(), then=8)
    await send(stage, changed(put(), arguments={}), then=8)
    await send(stage, request(1), changed(put(), arguments={"path": "b.csv"}), then=5)
    await send(stage, changed(put(), arguments={}), then=8)
    assert not (await stage.store.schedules())["tick"].paused


def in_one(*messages: Message) -> Message:
    body = b"[" + b",".join(message.body for message in messages) + b"]"
    return messages[0]._replace(body=body, content_type=BATCH_TYPE, message_id="batch")


def broken(reply_to: str) -> Message:
    """A command without a schedule."""
    body = (
        b'{"specversion":"1.0","id":"1","source":"test","type":"schedule.put.v1","data":{"reply_to":"'
        + reply_to.encode()
        + b'"}}'
    )
    return build_message(put())._replace(body=body, message_id="broken")


async def test_commands_wait_behind_no_request(stage: Stage) -> None:
    stage.broker.mute(topology.REQUESTS_QUEUE.name)
    await stage.send(build_message(put()))
    assert await stage.store.schedules()


async def test_an_unreadable_command_is_answered_and_parked(stage: Stage) -> None:
    await stage.send(broken("me"))
    stage.answer("me", events.JobRejected)
    [parked] = stage.received[topology.DEAD]
    assert parked.routing_key == f"parked.{topology.SCHEDULER_COMMANDS.name}"


async def test_each_command_of_a_batch_is_judged_by_itself(stage: Stage) -> None:
    remove = build_message(named(events.ScheduleRemoveRequested))
    await stage.send(in_one(broken("me"), build_message(put()), remove))
    assert stage.answers("me")
    assert await stage.store.schedules(), "put, and not removed under the routing key of another command"
    assert sorted(reason for reason, _ in stage.parked()) == [
        events.Reason.BAD_FIELDS,
        events.Reason.ROUTING_KEY_MISMATCH,
    ]


async def test_a_command_of_the_supervisor_is_parked(stage: Stage) -> None:
    data = events.JobCancelRequestedData(job_id=job_id_of("test", "1"))
    cancel = build_message(events.JobCancelRequested(id="1", source="test", data=data))
    await stage.send(cancel._replace(routing_key="schedule.put"))
    await stage.send(cancel._replace(exchange="", routing_key=topology.SCHEDULER_COMMANDS.name))
    assert {reason for reason, _ in stage.parked()} == {
        events.Reason.ROUTING_KEY_MISMATCH,
        events.Reason.WRONG_QUEUE,
    }
