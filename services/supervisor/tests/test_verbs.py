"""The verbs on a broker and a store: what is heard is judged, saved, told and acknowledged."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from services.supervisor.tests import event_factory
from services.supervisor.tests.event_factory import JOB, NOW, make
from services.supervisor.tests.harness import SupervisorHarness

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
    HeartbeatAttempt,
    JobDead,
    JobFinished,
    JobRetrying,
)
from warrener_contracts.messages import BATCH_TYPE, Message, build_message, build_parked_message
from warrener_contracts.states import JobState
from warrener_contracts.topology import Topology
from warrener_store.port import Save, StoreRefused
from warrener_store.rows import JobRow
from warrener_supervisor import status_consumer
from warrener_supervisor.notifications import dispatch_message

FRESH = NOW + timedelta(seconds=30)


@pytest.fixture
async def harness() -> AsyncIterator[SupervisorHarness]:
    """A supervisor that watches one running job."""
    one = SupervisorHarness()
    await one.open(_running())
    yield one
    await one.close()


def _running(**changes: Any) -> JobRow:
    return make(JobState.RUNNING, lease_until=FRESH, wake_at=FRESH, watchers=("me",), **changes)


async def _row(harness: SupervisorHarness) -> JobRow:
    return (await harness.store.jobs_by_id([JOB]))[JOB]


async def _reasons(harness: SupervisorHarness) -> list[str]:
    return sorted(message.reason for message in await harness.store.parked())


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


async def test_a_result_is_stored_and_published_to_all_and_to_those_who_wait(
    harness: SupervisorHarness,
) -> None:
    await harness.publish(event_factory.succeeded(result={"rows": 842}))
    row = await _row(harness)
    assert (row.state, row.result) == (JobState.SUCCEEDED, {"rows": 842})
    assert harness.addresses(topology.EVENTS) == ["job.finished.succeeded.flights.load", "reply.me"]
    assert [one.attempt for one in await harness.store.attempts_of(JOB)] == [1]


async def test_a_failed_attempt_comes_again_by_the_ladder_when_it_is_due(harness: SupervisorHarness) -> None:
    await harness.publish(event_factory.failed(retry_after_seconds=6))
    assert not harness.dispatched()
    (retrying,) = harness.published(topology.EVENTS)
    assert isinstance(retrying, JobRetrying)
    assert (retrying.data.next_attempt, retrying.data.due_at) == (2, NOW + timedelta(seconds=6))
    await harness.clock.advance(7)
    (dispatch,) = harness.dispatched()
    assert isinstance(dispatch, AttemptDispatched)
    assert (dispatch.data.attempt, dispatch.data.not_before) == (2, NOW + timedelta(seconds=6))


async def test_what_the_ladder_loses_is_dispatched_again(harness: SupervisorHarness) -> None:
    await harness.publish(event_factory.failed(retry_after_seconds=5))
    harness.broker.purge("warrener.delay.5s")
    await harness.clock.advance(35)
    (dispatch,) = harness.dispatched()
    assert isinstance(dispatch, AttemptDispatched)
    assert dispatch.data.attempt == 2
    assert (await _row(harness)).state is JobState.QUEUED


async def test_a_delay_beyond_the_ladder_waits_in_the_store(harness: SupervisorHarness) -> None:
    await harness.publish(event_factory.failed(retry_after_seconds=7200))
    assert not any(harness.broker.ready(level.queue) for level in topology.DELAY_LEVELS)
    await harness.clock.advance(7202)
    assert len(harness.dispatched()) == 1


async def test_a_dead_job_leaves_a_dead_letter_and_publishes_it(harness: SupervisorHarness) -> None:
    error = event_factory.BOOM.model_copy(update={"retryable": False})
    await harness.publish(event_factory.failed(error=error))
    (dead_letter,) = await harness.store.dead_letters()
    assert dead_letter.reason == "no retry can mend it"
    kinds = [type(event) for event in harness.published(topology.EVENTS)]
    assert kinds == [JobFinished, JobDead, JobFinished]


def in_one_message(events: Sequence[Event[Any]]) -> Message:
    """As a neighbour may write it that gathers more than one routing key."""
    messages = [build_message(event) for event in events]
    body = b"[" + b",".join(message.body for message in messages) + b"]"
    return messages[0]._replace(body=body, content_type=BATCH_TYPE, headers={}, type="batch")


async def test_events_of_one_job_in_one_message_are_judged_in_order_and_saved_once(
    harness: SupervisorHarness,
) -> None:
    await harness.publish(
        in_one_message(
            [
                event_factory.failed(1),
                event_factory.started(2),
                event_factory.failed(2),
                event_factory.succeeded(3, 7),
            ]
        )
    )
    row = await _row(harness)
    assert (row.state, row.attempt, row.result, row.failures) == (JobState.SUCCEEDED, 3, 7, 2)
    assert [one.attempt for one in await harness.store.attempts_of(JOB)] == [1, 2, 3]
    assert not harness.dispatched(), "what is over is not dispatched any more"


async def test_a_repeated_event_changes_nothing(harness: SupervisorHarness) -> None:
    await harness.publish(event_factory.failed(1))
    once = await _row(harness)
    await harness.publish(event_factory.failed(1))
    assert await _row(harness) == once


async def test_i12_what_cannot_be_judged_is_parked_alone_with_its_reason(harness: SupervisorHarness) -> None:
    stranger = event_factory.succeeded(job_id=UUID(int=7))
    impossible = event_factory.started(9)
    wrong_door = _heartbeat()
    garbage = Message(topology.STATUS, "x", b"{", "application/json", "garbage", "x", {})
    lost_its_way = build_message(wrong_door)._replace(exchange=topology.STATUS)
    await harness.publish(garbage, lost_its_way, stranger, impossible, event_factory.succeeded())
    await harness.clock.advance(1)
    assert await _reasons(harness) == ["impossible", "not_json", "unknown_job", "wrong_door"]
    assert (await _row(harness)).state is JobState.SUCCEEDED
    assert harness.broker.ready(topology.STATUS_QUEUE.name) == 0


async def test_what_the_store_refuses_is_parked_and_the_others_are_saved(
    harness: SupervisorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = UUID(int=8)
    await harness.store.insert_jobs([replace(_running(), job_id=other)])
    save = harness.store.save_jobs

    async def picky(saves: list[Save]) -> set[UUID]:
        if any(one.row.job_id == other for one in saves):
            raise StoreRefused("not this one")
        return await save(saves)

    monkeypatch.setattr(harness.store, "save_jobs", picky)
    await harness.publish(in_one_message([event_factory.succeeded(job_id=other), event_factory.succeeded()]))
    await harness.clock.advance(1)
    assert (await _row(harness)).state is JobState.SUCCEEDED
    assert await _reasons(harness) == ["bad_fields"]


async def test_a_bug_in_the_judge_stops_nobody_else(
    harness: SupervisorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(status_consumer, "judge_all", broken)
    await harness.publish(event_factory.failed(), then=1)
    assert await _reasons(harness) == ["impossible"]
    assert harness.broker.ready(topology.STATUS_QUEUE.name) == 0


async def test_cancelling_what_runs_notifies_its_agents_and_waits_for_them(
    harness: SupervisorHarness,
) -> None:
    cancel = build_message(event_factory.cancel("you"))._replace(exchange=topology.STATUS)
    await harness.publish(cancel)
    (control,) = harness.published(topology.CONTROL)
    assert isinstance(control, AttemptCancel)
    assert (control.data.job_id, control.data.attempt) == (JOB, None)
    assert harness.addresses(topology.CONTROL) == ["queue.default"]
    await harness.publish(event_factory.stopped())
    assert (await _row(harness)).state is JobState.CANCELLED
    assert harness.addresses(topology.EVENTS)[1:] == ["reply.me", "reply.you"]
    harness.received.clear()
    await harness.publish(cancel._replace(message_id="again"))
    assert "reply.you" in harness.addresses(topology.EVENTS)


async def test_a_judgement_is_a_span_under_its_attempt(harness: SupervisorHarness) -> None:
    theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await harness.publish(event_factory.succeeded().model_copy(update={"traceparent": theirs}))
    (span,) = harness.telemetry.spans()
    assert span.name == "judge flights.load"
    assert span.attributes is not None
    assert span.attributes["warrener.verdict"] == "done"
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert {event.traceparent for event in harness.published(topology.EVENTS)} != {theirs}


# -- presence and the watchdog -----------------------------------------------------------------------------


async def test_heartbeats_keep_an_attempt_alive_and_silence_loses_it(harness: SupervisorHarness) -> None:
    for number in range(12):
        await harness.publish(_heartbeat((JOB, 1), number=number), then=5)
    assert (await _row(harness)).attempt == 1
    await harness.clock.advance(12)
    row = await _row(harness)
    assert (row.state, row.attempt, row.losses, row.failures) == (JobState.RETRYING, 2, 1, 0)
    (again,) = harness.dispatched()
    assert again.time == row.due_at, "elsewhere, at once"
    (agent,) = await harness.store.agents()
    assert agent.last_seen_at == NOW + timedelta(seconds=55)


async def test_a_supervisor_that_has_not_listened_for_a_lease_loses_nothing(
    harness: SupervisorHarness,
) -> None:
    await harness.publish(_heartbeat((JOB, 1)))
    harness.broker.stop()
    await harness.clock.advance(300)
    harness.broker.start()
    await harness.clock.advance(16)
    for number in range(2, 6):
        await harness.publish(_heartbeat((JOB, 1), number=number), then=5)
    row = await _row(harness)
    assert (row.attempt, row.losses) == (1, 0)


async def test_an_attempt_that_runs_too_long_is_timed_out_and_its_agent_notified(
    harness: SupervisorHarness,
) -> None:
    timeout = (await _row(harness)).policy.timeout.total_seconds()
    for number in range(int(timeout / 5) + 4):
        await harness.publish(_heartbeat((JOB, 1), number=number), then=5)
    published = [event for event in harness.published(topology.CONTROL) if isinstance(event, AttemptCancel)]
    assert {event.data.attempt for event in published} == {1}
    assert len(published) > 1, "told again and again"
    row = await _row(harness)
    assert (row.state, row.attempt) == (JobState.RUNNING, 1), "its agent names it: it is not dead yet"

    await harness.publish(_heartbeat(number=-1), then=30)
    row = await _row(harness)
    assert (row.attempt, row.failures, row.losses) == (2, 1, 0), "named no more: charged as a timeout"


async def test_a_heartbeat_is_a_sign_of_life_of_what_nobody_announced() -> None:
    harness = SupervisorHarness()
    await harness.open(make(JobState.QUEUED, wake_at=FRESH))
    await harness.publish(_heartbeat((JOB, 1)))
    row = await _row(harness)
    assert (row.state, row.owner) == (JobState.RUNNING, "agent-1")
    await harness.close()


async def test_a_stop_that_was_not_received_is_repeated_with_every_heartbeat(
    harness: SupervisorHarness,
) -> None:
    await harness.publish(build_message(event_factory.cancel())._replace(exchange=topology.STATUS))
    await harness.publish(_heartbeat((JOB, 1)), _heartbeat((JOB, 1), number=2))
    assert len(harness.published(topology.CONTROL)) >= 2


async def test_a_deadline_ends_a_job_wherever_it_is() -> None:
    harness = SupervisorHarness()
    await harness.open(make(JobState.WAITING, deadline_at=NOW + timedelta(seconds=3), wake_at=FRESH))
    await harness.clock.advance(5)
    assert (await _row(harness)).state is JobState.EXPIRED
    assert "job.finished.expired.flights.load" in harness.addresses(topology.EVENTS)
    await harness.close()


async def test_1_what_was_not_published_is_dispatched_under_its_number() -> None:
    harness = SupervisorHarness()
    await harness.open(make(JobState.QUEUED, dispatched_at=None, wake_at=FRESH))
    await harness.clock.advance(2)
    (dispatch,) = harness.dispatched()
    assert isinstance(dispatch, AttemptDispatched)
    assert dispatch.data.attempt == 1
    row = await _row(harness)
    assert (row.failures, row.dispatched_at is None) == (0, False)
    await harness.close()


async def test_1_a_job_that_waits_longer_than_its_start_timeout_is_named_once() -> None:
    harness, row = SupervisorHarness(), make(JobState.QUEUED)
    await harness.open(row)
    await harness.bus.declare(Topology((), (topology.dispatch_queue("default"),)))
    await harness.publish(dispatch_message(row, NOW), then=1)
    dispatched = len(harness.dispatched())
    await harness.clock.advance(400)
    named = [event for event in harness.published(topology.STATUS) if isinstance(event, AttemptStartTimedOut)]
    assert [(event.data.job_id, event.data.attempt) for event in named] == [(JOB, 1)]
    assert len(harness.dispatched()) == dispatched, "it waits in its queue"
    assert (await _row(harness)).attempt == 1
    await harness.close()


# -- bury --------------------------------------------------------------------------------------------------


async def test_a_parked_message_is_stored_once_with_its_reason(harness: SupervisorHarness) -> None:
    parked = build_parked_message(
        queue="warrener.requests",
        body=b"{",
        reason="not_json",
        detail="no",
        message_id="p",
        content_type=None,
    )
    await harness.publish(parked, parked._replace(headers={**parked.headers}), then=1)
    (message,) = await harness.store.parked()
    assert (message.queue, message.reason, message.detail, message.body) == (
        "warrener.requests",
        "not_json",
        "no",
        b"{",
    )


async def test_a_dispatch_that_the_broker_gives_up_is_a_lost_attempt() -> None:
    harness = SupervisorHarness()
    row = make(JobState.QUEUED, wake_at=FRESH)
    await harness.open(row)
    await harness.bus.declare(topology.Topology((), (topology.dispatch_queue("default"),)))
    dispatch = AttemptDispatched(id="d", source="test", data=AttemptDispatchedData(**_dispatched(row)))
    await harness.publish(dispatch)
    subscription = await harness.bus.subscribe("warrener.queue.default", prefetch=1)
    async for batch in subscription:
        await subscription.reject(batch, requeue=False)
        break
    await harness.clock.advance(1)
    assert not await harness.store.parked(), "its job goes on, so nobody has anything to do about the message"
    assert any(isinstance(event, AttemptLost) for event in harness.published(topology.STATUS))
    assert (await _row(harness)).attempt == 2
    await harness.close()


async def test_what_is_bound_nowhere_is_stored(harness: SupervisorHarness) -> None:
    nowhere = Message(topology.DEAD, "x", json.dumps({}).encode(), "application/json", "n", "x", {})
    await harness.publish(
        nowhere._replace(exchange=topology.RETURN, routing_key="1s.nobody.flights.load"), then=1
    )
    (message,) = await harness.store.parked()
    assert message.reason == "unroutable"
    assert "nobody.flights.load" in message.detail


def _dispatched(row: JobRow) -> dict[str, Any]:
    return row.dispatched_data().model_dump()
