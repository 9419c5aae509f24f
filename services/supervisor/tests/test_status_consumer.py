"""Events about attempts are judged, saved, published and acknowledged; plain successes in one statement."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from services.supervisor.tests import stage

from warrener_contracts import topology
from warrener_contracts.events import AttemptCancel, Event, JobDead, JobFinished, JobRetrying
from warrener_contracts.messages import BATCH_TYPE, Message, build_message
from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_runtime.telemetry import TraceContext
from warrener_store.dead_letters.rows import DeadLetterFilter
from warrener_store.errors import StoreRefused
from warrener_store.jobs.rows import JobRow, Save
from warrener_store.jobs.views import SucceededJob, Success
from warrener_store.memory import MemoryStore
from warrener_supervisor import status_consumer
from warrener_supervisor.decisions.context import JobTransition, JudgeContext, Notification, Timings
from warrener_supervisor.decisions.judge import judge
from warrener_supervisor.notifications import finished_messages, success_messages
from warrener_supervisor.requeue import requeued_message


async def _reasons(harness: stage.SupervisorHarness) -> list[str]:
    return sorted(message.reason for message in await harness.store.parked())


async def test_a_result_is_stored_and_published_to_all_and_to_those_who_wait(
    harness: stage.SupervisorHarness,
) -> None:
    await harness.publish(stage.succeeded(result={"rows": 842}))
    row = await harness.row()
    assert (row.state, row.result) == (JobState.SUCCEEDED, {"rows": 842})
    assert harness.addresses(topology.EVENTS) == ["job.finished.succeeded.flights.load", "reply.me"]
    assert [one.attempt for one in await harness.store.attempts_of([stage.JOB])] == [1]


async def test_a_failed_attempt_comes_again_by_a_delay_queue_when_it_is_due(
    harness: stage.SupervisorHarness,
) -> None:
    await harness.publish(stage.failed(retry_after_seconds=6))
    assert not harness.dispatched()
    (retrying,) = harness.all_of(JobRetrying)
    assert (retrying.data.next_attempt, retrying.data.due_at) == (2, stage.NOW + timedelta(seconds=6))
    await harness.clock.advance(7)
    (dispatch,) = harness.dispatched()
    assert (dispatch.data.attempt, dispatch.data.not_before) == (2, stage.NOW + timedelta(seconds=6))


async def test_what_a_delay_queue_loses_is_dispatched_again(harness: stage.SupervisorHarness) -> None:
    await harness.publish(stage.failed(retry_after_seconds=5))
    harness.broker.purge("warrener.delay.5s")
    await harness.clock.advance(35)
    assert [dispatch.data.attempt for dispatch in harness.dispatched()] == [2]
    assert (await harness.row()).state is JobState.QUEUED


async def test_a_dead_job_leaves_a_dead_letter_and_publishes_it(harness: stage.SupervisorHarness) -> None:
    error = stage.BOOM.model_copy(update={"retryable": False})
    await harness.publish(stage.failed(error=error))
    (dead_letter,) = await harness.store.dead_letter_store.list_dead_letters(DeadLetterFilter(states=()))
    assert dead_letter.reason == "no retry can mend it"
    kinds = [type(event) for event in harness.published(topology.EVENTS)]
    assert kinds == [JobFinished, JobFinished, JobDead], "to all, to the requester, and the death"


def in_one_message(events: Sequence[Event[Any]]) -> Message:
    """As a tool may put it straight into the queue, without a routing key to compare."""
    messages = [build_message(event) for event in events]
    body = b"[" + b",".join(message.body for message in messages) + b"]"
    straight = messages[0]._replace(exchange="", routing_key=topology.STATUS_QUEUE.name)
    return straight._replace(body=body, content_type=BATCH_TYPE, headers={}, type="batch")


async def test_events_of_one_job_in_one_message_are_judged_in_order_and_saved_once(
    harness: stage.SupervisorHarness,
) -> None:
    await harness.publish(
        in_one_message([stage.failed(1), stage.started(2), stage.failed(2), stage.succeeded(3, 7)])
    )
    row = await harness.row()
    assert (row.state, row.attempt, row.result, row.failures) == (JobState.SUCCEEDED, 3, 7, 2)
    assert [one.attempt for one in await harness.store.attempts_of([stage.JOB])] == [1, 2, 3]
    assert not harness.dispatched(), "what is over is not dispatched any more"


async def test_i12_what_cannot_be_judged_is_parked_alone_with_its_reason(
    harness: stage.SupervisorHarness,
) -> None:
    stranger = stage.succeeded(job_id=UUID(int=7))
    impossible = stage.started(9)
    garbage = Message(topology.STATUS, "x", b"{", "application/json", "garbage", "x", {})
    lost_its_way = build_message(stage.heartbeat())._replace(exchange=topology.STATUS)
    await harness.publish(garbage, lost_its_way, stranger, impossible, stage.succeeded())
    await harness.clock.advance(1)
    assert await _reasons(harness) == ["impossible", "not_json", "routing_key_mismatch", "unknown_job"]
    assert (await harness.row()).state is JobState.SUCCEEDED
    assert harness.broker.ready(topology.STATUS_QUEUE.name) == 0


async def test_an_event_under_the_key_of_another_one_is_parked_and_so_it_is_when_it_is_requeued(
    harness: stage.SupervisorHarness,
) -> None:
    before = await harness.row()
    message = build_message(stage.succeeded())._replace(routing_key="incident.snooze_requested")
    for _ in range(2):
        await harness.publish(message, then=1)
        (parked,) = await harness.store.parked()
        assert parked.reason == "routing_key_mismatch"
        assert (parked.exchange, parked.routing_key) == (topology.STATUS, "incident.snooze_requested")
        assert await harness.row() == before
        message = requeued_message(parked)


async def test_what_the_store_refuses_is_parked_and_the_others_are_saved(
    harness: stage.SupervisorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = UUID(int=8)
    await harness.store.insert_jobs([replace(stage.running_row(), job_id=other)])
    save, succeed = harness.store.save_jobs, harness.store.succeed_jobs

    async def picky_save(saves: list[Save]) -> set[UUID]:
        if any(one.row.job_id == other for one in saves):
            raise StoreRefused("not this one")
        return await save(saves)

    async def picky_success(successes: list[Success], now: datetime) -> dict[UUID, SucceededJob]:
        if any(one.job_id == other for one in successes):
            raise StoreRefused("not this one")
        return await succeed(successes, now)

    monkeypatch.setattr(harness.store, "save_jobs", picky_save)
    monkeypatch.setattr(harness.store, "succeed_jobs", picky_success)
    await harness.publish(in_one_message([stage.succeeded(job_id=other), stage.succeeded()]))
    await harness.clock.advance(1)
    assert (await harness.row()).state is JobState.SUCCEEDED
    assert await _reasons(harness) == ["bad_fields"]


async def test_a_bug_in_the_judge_stops_nobody_else(
    harness: stage.SupervisorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(status_consumer, "judge_all", broken)
    await harness.publish(stage.failed(), then=1)
    assert await _reasons(harness) == ["impossible"]
    assert harness.broker.ready(topology.STATUS_QUEUE.name) == 0


async def test_cancelling_what_runs_notifies_its_agents_and_waits_for_them(
    harness: stage.SupervisorHarness,
) -> None:
    request = build_message(stage.cancel("you"))._replace(exchange=topology.STATUS)
    await harness.publish(request)
    (control,) = harness.all_of(AttemptCancel)
    assert (control.data.job_id, control.data.attempt) == (stage.JOB, None)
    assert harness.addresses(topology.CONTROL) == ["queue.default"]
    await harness.publish(stage.stopped())
    assert (await harness.row()).state is JobState.CANCELLED
    handled, finished, *replies = harness.addresses(topology.EVENTS)
    assert (handled, finished) == ("reply.you", "job.finished.cancelled.flights.load")
    assert replies == ["reply.me"], "the end is for requesters of the job"
    harness.received.clear()
    await harness.publish(request._replace(message_id="again"))
    assert "reply.you" in harness.addresses(topology.EVENTS)


async def test_a_judgement_is_a_span_under_its_attempt(harness: stage.SupervisorHarness) -> None:
    theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await harness.publish(stage.succeeded().model_copy(update={"traceparent": theirs}))
    (span,) = harness.telemetry.spans()
    assert span.name == "judge flights.load"
    assert span.attributes is not None
    assert span.attributes["warrener.verdict"] == "done"
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert {event.traceparent for event in harness.published(topology.EVENTS)} != {theirs}


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("attempt", [1, 2, 3])
@pytest.mark.parametrize("cancelled", [None, "no more use"])
async def test_it_ends_a_job_exactly_where_the_judge_does_and_as_he_does(
    state: JobState, attempt: int, cancelled: str | None
) -> None:
    over = stage.NOW if state in TERMINAL else None
    now_at = 0 if state is JobState.WAITING else 2
    owner = {"agent_id": "a7"} if state is JobState.RUNNING else {}  # another one than reports it
    row = stage.make(state, attempt=now_at, cancel_reason=cancelled, finished_at=over, **owner)
    event = stage.succeeded(attempt, {"rows": 3})
    store = MemoryStore()
    await store.insert_jobs([row])
    data = event.data
    success = Success(row.job_id, attempt, data.agent_id, data.result, data.started_at, data.finished_at)
    ended = await store.succeed_jobs([success], stage.NOW)
    decision = judge(row, event, JudgeContext(stage.NOW, Timings()))
    saved = (await store.jobs_by_id([row.job_id]))[row.job_id]
    # An earlier one's is left to the judge, and that of a workflow that waits: its children may run.
    is_plain = attempt == row.attempt and state is not JobState.SUSPENDED
    if isinstance(decision, JobTransition) and is_plain:
        assert saved == decision.row
        assert await store.attempts_of([row.job_id]) == [decision.attempt]
        assert decision.notifications == {Notification.FINISHED}
        assert ended.keys() == {row.job_id}
    else:
        assert (saved, ended) == (row, {})


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.integers(0, 221_000_000_000_000_000).map(lambda us: EPOCH + timedelta(microseconds=us))
RESULTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
WORDS = st.sampled_from(["a", "flights.load", "A-1._.x_2"])
PARENTS = st.sampled_from([None, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"])
STATES = st.sampled_from([None, "vendor=1", 'a="b\\",c=2'])
TRACES = st.builds(TraceContext, PARENTS, STATES)
ROWS = st.builds(
    stage.make,
    st.just(JobState.SUCCEEDED),
    job_id=st.uuids(),
    parent_id=st.none() | st.uuids(),
    job_type=WORDS,
    result=RESULTS,
    attempt=st.integers(1, 2**31 - 1),
    requested_at=MOMENTS,
    finished_at=MOMENTS,
)


@given(row=ROWS, trace=TRACES)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a loaded machine proves nothing
def test_a_success_is_written_as_its_model_would_write_it(row: JobRow, trace: TraceContext) -> None:
    assert success_messages(row, trace) == finished_messages(row, trace)
