"""Commands about schedules: a repeat changes nothing, each is answered, an error at one stops no other."""

from datetime import timedelta
from typing import Any

import pytest
from services.scheduler.tests.stage import Stage, at, changed, named, put, request

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
        await stage.publish(put(), put(), then=1.5)
        await stage.publish(put(), then=0)
        assert await stage.statuses() == ["fired", "fired"]

    async def test_paused_ticks_stand_in_the_ledger(self, stage: Stage) -> None:
        await stage.publish(put(), then=0.5)
        await stage.publish(named(events.SchedulePauseRequested), then=2)
        await stage.publish(named(events.ScheduleResumeRequested), then=1)
        assert await stage.statuses() == ["fired", "skipped", "skipped", "fired"]
        assert (await stage.tick_rows())[1].reason == "the schedule is paused: requested"

    async def test_5_a_removed_schedule_ticks_no_more_its_ledger_stays_and_no_tick_waits(
        self, stage: Stage
    ) -> None:
        await stage.publish(put(overlap="queue_all"), then=3.5)
        assert await stage.statuses() == ["fired", "waiting", "waiting", "waiting"]
        await stage.publish(named(events.ScheduleRemoveRequested), then=5)
        assert await stage.store.schedules() == {}
        assert await stage.statuses() == ["fired", "skipped", "skipped", "skipped"]
        reasons = {tick.reason for tick in (await stage.tick_rows())[1:]}
        assert reasons == {"the schedule was removed while the tick waited"}

    async def test_a_trigger_requests_one_job_however_often_it_is_sent(self, stage: Stage) -> None:
        await stage.publish(put(rule=CronRule(expression="@yearly"), start=at(3600)), then=1)
        trigger = named(events.ScheduleTriggerRequested)
        await stage.publish(trigger, trigger, then=1)
        assert len(stage.job_ids()) == 1
        assert [tick.status for tick in await stage.tick_rows()] == [events.TickStatus.TRIGGERED]
        assert (await stage.tick_rows())[0].fired_at is not None

    async def test_triggers_in_whole_seconds_take_no_place_of_a_tick_or_of_each_other(
        self, stage: Stage
    ) -> None:
        await stage.publish(put(), then=2.5)
        tick = (await stage.tick_rows())[1]
        triggers = [named(events.ScheduleTriggerRequested, event_id=name) for name in "ab"]
        published = [event.model_copy(update={"time": tick.nominal_at}) for event in triggers]
        await stage.publish(*published, *published, then=0.4)
        assert (await stage.statuses()).count("triggered") == 2
        assert set(stage.job_ids()) == {tick.job_id for tick in await stage.tick_rows()}
        assert len(set(stage.job_ids())) == len(await stage.tick_rows()) == 5

    @pytest.mark.parametrize(
        ("command", "detail"),
        [
            (put(rule=CronRule(expression="0 0 31 2 *")), "expected a cron expression"),
            (put(rule=IntervalRule(every=timedelta(milliseconds=99))), "at least 0.1 s"),
            (put(timezone="Europe/Bermuda"), "IANA time zone database"),
            (put(start=at(2), end=at(1)), "never does"),
            (changed(put(), arguments={"path": "{{ tick.nominl_at }}"}), "expected one of tick.schedule"),
            (
                named(events.ScheduleTriggerRequested, "unknown"),
                "expected the name of a schedule, got 'unknown'",
            ),
        ],
    )
    async def test_a_schedule_that_is_refused_is_answered_and_parked(
        self, stage: Stage, command: events.Event[Any], detail: str
    ) -> None:
        await stage.publish(command, then=1)
        assert detail in stage.all_of(events.JobRejected)[0].data.detail
        assert [reason for reason, _ in stage.parked()] == ["bad_fields"]
        assert await stage.store.schedules() == {}


BUG = ZeroDivisionError("a bug")


async def test_a_bug_in_the_check_of_one_schedule_stops_no_other(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(spec: events.SchedulePutData, *rest: object) -> None:
        if spec.name == "bad":
            raise BUG
        check(spec, *rest)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(writer, "check", broken)
    await stage.publish(put("bad"), put("good"), then=1.5)
    assert (await stage.store.schedules()).keys() == {"good"}
    assert "fired" in await stage.statuses("good")


async def test_a_bug_in_a_trigger_stops_no_other(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage.publish(put("bad"), then=0.5)

    def broken(*_: object) -> None:
        raise BUG

    monkeypatch.setattr(commands, "_triggered_tick", broken)
    await stage.publish(named(events.ScheduleTriggerRequested, "bad"), put("good"), then=1.5)
    assert "triggered" not in await stage.statuses("bad")
    assert "fired" in await stage.statuses("good")


async def expected(stage: Stage) -> list[WatchRow]:
    now = stage.clock.now()
    return [found.row for found in await stage.store.claim_watches(now, now, 10)]


async def test_6_expectations_follow_their_schedules(stage: Stage) -> None:
    hour: dict[str, Any] = {"rule": IntervalRule(every=timedelta(hours=1))}
    await stage.publish(put(expect_success_within="2h", pause_after_failures=3, **hour), put("plain", **hour))
    (row,) = await expected(stage)
    assert (row.name, row.pause_after, row.success_within) == ("tick", 3, timedelta(hours=2))
    await stage.publish(put(pause_after_failures=5, **hour))
    assert [row.pause_after for row in await expected(stage)] == [5]
    await stage.publish(put(**hour))
    assert await expected(stage) == []


async def test_2_a_pause_has_its_reason_in_the_ledger_and_its_end_resets_the_failures(stage: Stage) -> None:
    why = "its last 3 jobs have failed"
    pause = events.SchedulePauseRequested(
        id="p", source="test", data=events.ScheduleCommandData(name="tick", reason=why)
    )
    await stage.publish(put(pause_after_failures=3), then=0.5)
    await stage.publish(pause, then=1)
    assert (await stage.tick_rows())[1].reason == f"the schedule is paused: {why}"
    await stage.publish(named(events.ScheduleResumeRequested), then=1)
    assert (await stage.store.schedules())["tick"].pause_reason == ""
    assert (await stage.tick_rows())[-1].reason == ""
    (row,) = await expected(stage)
    assert row.since >= at(1.5)


COMMANDS = (
    events.SchedulePauseRequested,
    events.ScheduleResumeRequested,
    events.ScheduleTriggerRequested,
    events.ScheduleRemoveRequested,
)
RARELY = IntervalRule(every=timedelta(hours=1))


def replies(stage: Stage) -> list[events.CommandHandled]:
    return [event for event in stage.answers("desk") if isinstance(event, events.CommandHandled)]


@pytest.mark.parametrize("kind", COMMANDS)
async def test_a_command_is_answered_and_one_for_an_unknown_name_refused_with_one_line(
    stage: Stage, kind: Any
) -> None:
    await stage.publish(put(rule=RARELY), then=1)
    await stage.publish(changed(named(kind), reply_to="desk"), then=1)
    stored, handled = replies(stage)
    assert (stored.data.command, stored.data.accepted) == ("schedule.put.v1", True)
    assert (handled.data.command_id, handled.data.command_source) == ("1", "test")
    assert (handled.data.accepted, handled.data.detail) == (True, "")
    await stage.publish(changed(named(kind, "nigthly", "2"), reply_to="desk"), then=1)
    *_, answer = stage.answers("desk")
    assert isinstance(answer, events.CommandHandled | events.JobRejected)
    assert answer.data.detail == "expected the name of a schedule, got 'nigthly': put it first"
    if isinstance(answer, events.CommandHandled):
        assert not answer.data.accepted
        assert stage.parked() == []


async def test_nobody_is_answered_who_gave_no_address(stage: Stage) -> None:
    await stage.publish(
        changed(put(rule=RARELY), reply_to=None), named(events.SchedulePauseRequested), then=1
    )
    assert replies(stage) == []
    assert (await stage.store.schedules())["tick"].paused


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"job_type": "no.such"}, "expected a job type that an agent has announced, got 'no.such'"),
        ({"arguments": {}}, "arguments: expected a value that meets `required`, got another"),
        ({"arguments": {"path": 7}}, "arguments.path: expected a value that meets `type`, got another"),
    ],
)
async def test_a_checked_put_whose_requests_would_be_rejected_is_refused(
    stage: Stage, fields: dict[str, Any], detail: str
) -> None:
    await stage.publish(changed(put(rule=RARELY), **fields), then=1)
    assert set(await stage.store.schedules()) == {"tick"}, "unchecked, as of a file that is put before agents"
    await stage.publish(named(events.ScheduleRemoveRequested), then=1)
    await stage.publish(changed(put(rule=RARELY), checked=True, **fields), then=1)
    assert await stage.store.schedules() == {}
    [refused] = [event for event in stage.answers("desk") if isinstance(event, events.JobRejected)]
    assert detail in refused.data.detail


async def test_the_arguments_are_checked_as_a_tick_fills_them_and_the_check_is_not_stored(
    stage: Stage,
) -> None:
    wanted = changed(put(rule=RARELY), checked=True, arguments={"path": "{{ tick.run }}.csv"})
    await stage.publish(wanted, then=1)
    definition = (await stage.store.schedules())["tick"].definition
    assert (definition.checked, definition.reply_to) == (False, None)
    assert definition.arguments == {"path": "{{ tick.run }}.csv"}


async def test_a_rejected_tick_has_the_reason_and_ten_in_a_row_pause_the_schedule(stage: Stage) -> None:
    every_second = changed(put(), job_type="no.such")
    assert isinstance(every_second, events.SchedulePut)
    await stage.publish(every_second, then=5)
    rejected = await stage.tick_rows()
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
    assert (await stage.statuses()).count("fired") in {10, 11}
    await stage.publish(named(events.ScheduleResumeRequested), then=4)
    assert not (await stage.store.schedules())["tick"].paused, "the count begins again"


async def test_an_accepted_request_begins_the_count_again(stage: Stage) -> None:
    await stage.publish(put(), then=8)
    await stage.publish(changed(put(), arguments={}), then=8)
    await stage.publish(request(1), changed(put(), arguments={"path": "b.csv"}), then=5)
    await stage.publish(changed(put(), arguments={}), then=8)
    assert not (await stage.store.schedules())["tick"].paused


def in_one(*messages: Message) -> Message:
    body = b"[" + b",".join(message.body for message in messages) + b"]"
    return messages[0]._replace(body=body, content_type=BATCH_TYPE, message_id="batch")


async def test_commands_wait_behind_no_request(stage: Stage) -> None:
    stage.broker.mute(topology.REQUESTS_QUEUE.name)
    await stage.send(build_message(put()))
    assert await stage.store.schedules()


async def test_each_command_of_a_batch_is_judged_by_itself(stage: Stage) -> None:
    remove = build_message(named(events.ScheduleRemoveRequested))
    broken = build_message(put())._replace(
        body=b'{"specversion":"1.0","id":"1","source":"test","type":"schedule.put.v1","data":{"reply_to":"me"}}'
    )
    await stage.send(in_one(broken, build_message(put()), remove))
    stage.answer("me", events.JobRejected)
    parked_key = f"parked.{topology.SCHEDULER_COMMANDS.name}"
    assert {one.routing_key for one in stage.received[topology.DEAD]} == {parked_key}
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
