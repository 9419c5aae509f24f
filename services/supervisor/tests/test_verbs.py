"""The verbs on a broker and a store: what is heard is judged, saved, told and acknowledged."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from services.supervisor.tests import words
from services.supervisor.tests.stage import Stage
from services.supervisor.tests.words import JOB, NOW, make

from warrener_contracts import topology
from warrener_contracts.events import (
    AgentHeartbeat,
    AgentHeartbeatData,
    AttemptCancel,
    AttemptDispatched,
    AttemptDispatchedData,
    AttemptLost,
    AttemptStartTimedOut,
    Event,
    JobDead,
    JobFinished,
    JobRetrying,
    HeartbeatAttempt,
)
from warrener_contracts.messages import BATCH_TYPE, Message, build_message, build_parked_message
from warrener_contracts.states import JobState
from warrener_contracts.topology import Topology
from warrener_store.port import Save, StoreRefused
from warrener_store.rows import JobRow
from warrener_supervisor import observe
from warrener_supervisor.tidings import dispatch_letter

FRESH = NOW + timedelta(seconds=30)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A supervisor that watches one running job."""
    one = Stage()
    await one.open(_running())
    yield one
    await one.close()


def _running(**changes: Any) -> JobRow:
    return make(JobState.RUNNING, lease_until=FRESH, wake_at=FRESH, watchers=("me",), **changes)


async def _row(stage: Stage) -> JobRow:
    return (await stage.store.jobs_by_id([JOB]))[JOB]


async def _reasons(stage: Stage) -> list[str]:
    return sorted(message.reason for message in await stage.store.parked())


def _heartbeat(*running: tuple[Any, int], agent: str = "agent-1", number: int = 1) -> AgentHeartbeat:
    data = AgentHeartbeatData(
        agent_id=agent,
        host="here",
        pid=1,
        queues=("default",),
        slots=4,
        running=tuple(HeartbeatAttempt(job_id=job_id, attempt=attempt) for job_id, attempt in running),
        started_at=NOW,
    )
    return AgentHeartbeat(id=f"beat-{agent}-{number}", source=agent, data=data)


# -- observe -----------------------------------------------------------------------------------------------


async def test_a_result_is_kept_and_told_to_all_and_to_those_who_wait(stage: Stage) -> None:
    await stage.say(words.succeeded(result={"rows": 842}))
    row = await _row(stage)
    assert (row.state, row.result) == (JobState.SUCCEEDED, {"rows": 842})
    assert stage.addresses(topology.EVENTS) == ["job.finished.succeeded.flights.load", "reply.me"]
    assert [one.attempt for one in await stage.store.attempts_of(JOB)] == [1]


async def test_a_failed_attempt_comes_again_by_the_ladder_when_it_is_due(stage: Stage) -> None:
    await stage.say(words.failed(retry_after_seconds=6))
    assert not stage.dispatched()
    (retrying,) = stage.told(topology.EVENTS)
    assert isinstance(retrying, JobRetrying)
    assert (retrying.data.next_attempt, retrying.data.due_at) == (2, NOW + timedelta(seconds=6))
    await stage.clock.advance(7)
    (dispatch,) = stage.dispatched()
    assert isinstance(dispatch, AttemptDispatched)
    assert (dispatch.data.attempt, dispatch.data.not_before) == (2, NOW + timedelta(seconds=6))


async def test_what_the_ladder_loses_is_dispatched_again(stage: Stage) -> None:
    await stage.say(words.failed(retry_after_seconds=5))
    stage.broker.purge("warrener.delay.5s")
    await stage.clock.advance(35)
    (dispatch,) = stage.dispatched()
    assert isinstance(dispatch, AttemptDispatched)
    assert dispatch.data.attempt == 2
    assert (await _row(stage)).state is JobState.QUEUED


async def test_a_delay_beyond_the_ladder_waits_in_the_store(stage: Stage) -> None:
    await stage.say(words.failed(retry_after_seconds=7200))
    assert not any(stage.broker.ready(rung.queue) for rung in topology.DELAY_LEVELS)
    await stage.clock.advance(7202)
    assert len(stage.dispatched()) == 1


async def test_a_dead_job_leaves_a_dead_letter_and_says_so(stage: Stage) -> None:
    error = words.BOOM.model_copy(update={"retryable": False})
    await stage.say(words.failed(error=error))
    (letter,) = await stage.store.dead_letters()
    assert letter.reason == "no retry can mend it"
    kinds = [type(event) for event in stage.told(topology.EVENTS)]
    assert kinds == [JobFinished, JobDead, JobFinished]


def in_one_message(events: Sequence[Event[Any]]) -> Message:
    """As a neighbour may write it that gathers more than one routing key."""
    letters = [build_message(event) for event in events]
    body = b"[" + b",".join(letter.body for letter in letters) + b"]"
    return letters[0]._replace(body=body, content_type=BATCH_TYPE, headers={}, type="batch")


async def test_events_of_one_job_in_one_message_are_judged_in_order_and_saved_once(stage: Stage) -> None:
    await stage.say(
        in_one_message([words.failed(1), words.started(2), words.failed(2), words.succeeded(3, 7)])
    )
    row = await _row(stage)
    assert (row.state, row.attempt, row.result, row.failures) == (JobState.SUCCEEDED, 3, 7, 2)
    assert [one.attempt for one in await stage.store.attempts_of(JOB)] == [1, 2, 3]
    assert not stage.dispatched(), "what is over is not dispatched any more"


async def test_a_repeated_event_changes_nothing(stage: Stage) -> None:
    await stage.say(words.failed(1))
    once = await _row(stage)
    await stage.say(words.failed(1))
    assert await _row(stage) == once


async def test_i12_what_cannot_be_judged_is_parked_alone_with_its_reason(stage: Stage) -> None:
    stranger = words.succeeded(job_id=UUID(int=7))
    impossible = words.started(9)
    wrong_door = _heartbeat()
    garbage = Message(topology.STATUS, "x", b"{", "application/json", "garbage", "x", {})
    lost_its_way = build_message(wrong_door)._replace(exchange=topology.STATUS)
    await stage.say(garbage, lost_its_way, stranger, impossible, words.succeeded())
    await stage.clock.advance(1)
    assert await _reasons(stage) == ["impossible", "not_json", "unknown_job", "wrong_door"]
    assert (await _row(stage)).state is JobState.SUCCEEDED
    assert stage.broker.ready(topology.STATUS_QUEUE.name) == 0


async def test_what_the_store_refuses_is_parked_and_the_others_are_saved(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = UUID(int=8)
    await stage.store.insert_jobs([replace(_running(), job_id=other)])
    save = stage.store.save_jobs

    async def picky(saves: list[Save]) -> set[UUID]:
        if any(one.row.job_id == other for one in saves):
            raise StoreRefused("not this one")
        return await save(saves)

    monkeypatch.setattr(stage.store, "save_jobs", picky)
    await stage.say(in_one_message([words.succeeded(job_id=other), words.succeeded()]))
    await stage.clock.advance(1)
    assert (await _row(stage)).state is JobState.SUCCEEDED
    assert await _reasons(stage) == ["bad_fields"]


async def test_a_bug_in_the_judge_stops_nobody_else(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(observe, "fold", broken)
    await stage.say(words.failed(), then=1)
    assert await _reasons(stage) == ["impossible"]
    assert stage.broker.ready(topology.STATUS_QUEUE.name) == 0


async def test_cancelling_what_runs_tells_its_agents_and_waits_for_them(stage: Stage) -> None:
    cancel = build_message(words.cancel("you"))._replace(exchange=topology.STATUS)
    await stage.say(cancel)
    (control,) = stage.told(topology.CONTROL)
    assert isinstance(control, AttemptCancel)
    assert (control.data.job_id, control.data.attempt) == (JOB, None)
    assert stage.addresses(topology.CONTROL) == ["queue.default"]
    await stage.say(words.stopped())
    assert (await _row(stage)).state is JobState.CANCELLED
    assert stage.addresses(topology.EVENTS)[1:] == ["reply.me", "reply.you"]
    stage.heard.clear()
    await stage.say(cancel._replace(message_id="again"))
    assert "reply.you" in stage.addresses(topology.EVENTS)


async def test_a_judgement_is_a_span_under_its_attempt(stage: Stage) -> None:
    theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await stage.say(words.succeeded().model_copy(update={"traceparent": theirs}))
    (span,) = stage.telemetry.spans()
    assert span.name == "judge flights.load"
    assert span.attributes is not None
    assert span.attributes["warrener.verdict"] == "done"
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert {event.traceparent for event in stage.told(topology.EVENTS)} != {theirs}


# -- presence and the watchdog -----------------------------------------------------------------------------


async def test_heartbeats_keep_an_attempt_alive_and_silence_loses_it(stage: Stage) -> None:
    for number in range(12):
        await stage.say(_heartbeat((JOB, 1), number=number), then=5)
    assert (await _row(stage)).attempt == 1
    await stage.clock.advance(12)
    row = await _row(stage)
    assert (row.state, row.attempt, row.losses, row.failures) == (JobState.RETRYING, 2, 1, 0)
    (again,) = stage.dispatched()
    assert again.time == row.due_at, "elsewhere, at once"
    (agent,) = await stage.store.agents()
    assert agent.last_seen_at == NOW + timedelta(seconds=55)


async def test_a_supervisor_that_has_not_listened_for_a_lease_loses_nothing(stage: Stage) -> None:
    await stage.say(_heartbeat((JOB, 1)))
    stage.broker.stop()
    await stage.clock.advance(300)
    stage.broker.start()
    await stage.clock.advance(16)
    for number in range(2, 6):
        await stage.say(_heartbeat((JOB, 1), number=number), then=5)
    row = await _row(stage)
    assert (row.attempt, row.losses) == (1, 0)


async def test_an_attempt_that_runs_too_long_is_timed_out_and_its_agent_told(stage: Stage) -> None:
    timeout = (await _row(stage)).policy.timeout.total_seconds()
    for number in range(int(timeout / 5) + 4):
        await stage.say(_heartbeat((JOB, 1), number=number), then=5)
    told = [event for event in stage.told(topology.CONTROL) if isinstance(event, AttemptCancel)]
    assert {event.data.attempt for event in told} == {1}
    assert len(told) > 1, "told again and again"
    row = await _row(stage)
    assert (row.state, row.attempt) == (JobState.RUNNING, 1), "its agent names it: it is not dead yet"

    await stage.say(_heartbeat(number=-1), then=30)
    row = await _row(stage)
    assert (row.attempt, row.failures, row.losses) == (2, 1, 0), "named no more: charged as a timeout"


async def test_a_heartbeat_is_a_sign_of_life_of_what_nobody_announced() -> None:
    stage = Stage()
    await stage.open(make(JobState.QUEUED, wake_at=FRESH))
    await stage.say(_heartbeat((JOB, 1)))
    row = await _row(stage)
    assert (row.state, row.owner) == (JobState.RUNNING, "agent-1")
    await stage.close()


async def test_a_stop_that_was_not_heard_is_repeated_with_every_heartbeat(stage: Stage) -> None:
    await stage.say(build_message(words.cancel())._replace(exchange=topology.STATUS))
    await stage.say(_heartbeat((JOB, 1)), _heartbeat((JOB, 1), number=2))
    assert len(stage.told(topology.CONTROL)) >= 2


async def test_a_deadline_ends_a_job_wherever_it_is() -> None:
    stage = Stage()
    await stage.open(make(JobState.WAITING, deadline_at=NOW + timedelta(seconds=3), wake_at=FRESH))
    await stage.clock.advance(5)
    assert (await _row(stage)).state is JobState.EXPIRED
    assert "job.finished.expired.flights.load" in stage.addresses(topology.EVENTS)
    await stage.close()


async def test_1_what_was_not_published_is_dispatched_under_its_number() -> None:
    stage = Stage()
    await stage.open(make(JobState.QUEUED, dispatched_at=None, wake_at=FRESH))
    await stage.clock.advance(2)
    (dispatch,) = stage.dispatched()
    assert isinstance(dispatch, AttemptDispatched)
    assert dispatch.data.attempt == 1
    row = await _row(stage)
    assert (row.failures, row.dispatched_at is None) == (0, False)
    await stage.close()


async def test_1_a_job_that_waits_longer_than_its_start_timeout_is_named_once() -> None:
    stage, row = Stage(), make(JobState.QUEUED)
    await stage.open(row)
    await stage.bus.declare(Topology((), (topology.dispatch_queue("default"),)))
    await stage.say(dispatch_letter(row, NOW), then=1)
    dispatched = len(stage.dispatched())
    await stage.clock.advance(400)
    named = [event for event in stage.told(topology.STATUS) if isinstance(event, AttemptStartTimedOut)]
    assert [(event.data.job_id, event.data.attempt) for event in named] == [(JOB, 1)]
    assert len(stage.dispatched()) == dispatched, "it waits in its queue"
    assert (await _row(stage)).attempt == 1
    await stage.close()


# -- bury --------------------------------------------------------------------------------------------------


async def test_a_parked_message_is_kept_once_with_its_reason(stage: Stage) -> None:
    parked = build_parked_message(
        queue="warrener.requests",
        body=b"{",
        reason="not_json",
        detail="no",
        message_id="p",
        content_type=None,
    )
    await stage.say(parked, parked._replace(headers={**parked.headers}), then=1)
    (message,) = await stage.store.parked()
    assert (message.queue, message.reason, message.detail, message.body) == (
        "warrener.requests",
        "not_json",
        "no",
        b"{",
    )


async def test_a_dispatch_that_the_broker_gives_up_is_a_lost_attempt() -> None:
    stage = Stage()
    row = make(JobState.QUEUED, wake_at=FRESH)
    await stage.open(row)
    await stage.bus.declare(topology.Topology((), (topology.dispatch_queue("default"),)))
    dispatch = AttemptDispatched(id="d", source="test", data=AttemptDispatchedData(**_dispatched(row)))
    await stage.say(dispatch)
    subscription = await stage.bus.subscribe("warrener.queue.default", prefetch=1)
    async for batch in subscription:
        await subscription.reject(batch, requeue=False)
        break
    await stage.clock.advance(1)
    assert not await stage.store.parked(), "its job goes on, so nobody has anything to do about the message"
    assert any(isinstance(event, AttemptLost) for event in stage.told(topology.STATUS))
    assert (await _row(stage)).attempt == 2
    await stage.close()


async def test_what_is_bound_nowhere_is_kept(stage: Stage) -> None:
    nowhere = Message(topology.DEAD, "x", json.dumps({}).encode(), "application/json", "n", "x", {})
    await stage.say(nowhere._replace(exchange=topology.RETURN, routing_key="1s.nobody.flights.load"), then=1)
    (message,) = await stage.store.parked()
    assert message.reason == "unroutable"
    assert "nobody.flights.load" in message.detail


def _dispatched(row: JobRow) -> dict[str, Any]:
    return row.dispatched_data().model_dump()
