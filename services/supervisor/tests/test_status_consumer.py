"""Events about attempts are judged, saved, published and acknowledged."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from services.supervisor.tests import event_factory
from services.supervisor.tests.event_factory import JOB, NOW, heartbeat, running_row
from services.supervisor.tests.harness import SupervisorHarness

from warrener_contracts import topology
from warrener_contracts.events import (
    AttemptCancel,
    AttemptDispatched,
    Event,
    JobDead,
    JobFinished,
    JobRetrying,
)
from warrener_contracts.messages import BATCH_TYPE, Message, build_message
from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.rows import DeadLetterFilter
from warrener_store.errors import StoreRefused
from warrener_store.jobs.rows import Save
from warrener_store.jobs.views import SucceededJob, Success
from warrener_supervisor import status_consumer
from warrener_supervisor.requeue import requeued_message


async def _reasons(harness: SupervisorHarness) -> list[str]:
    return sorted(message.reason for message in await harness.store.parked())


async def test_a_result_is_stored_and_published_to_all_and_to_those_who_wait(
    harness: SupervisorHarness,
) -> None:
    await harness.publish(event_factory.succeeded(result={"rows": 842}))
    row = await harness.row()
    assert (row.state, row.result) == (JobState.SUCCEEDED, {"rows": 842})
    assert harness.addresses(topology.EVENTS) == ["job.finished.succeeded.flights.load", "reply.me"]
    assert [one.attempt for one in await harness.store.attempts_of([JOB])] == [1]


async def test_a_failed_attempt_comes_again_by_a_delay_queue_when_it_is_due(
    harness: SupervisorHarness,
) -> None:
    await harness.publish(event_factory.failed(retry_after_seconds=6))
    assert not harness.dispatched()
    (retrying,) = harness.published(topology.EVENTS)
    assert isinstance(retrying, JobRetrying)
    assert (retrying.data.next_attempt, retrying.data.due_at) == (2, NOW + timedelta(seconds=6))
    await harness.clock.advance(7)
    (dispatch,) = harness.dispatched()
    assert isinstance(dispatch, AttemptDispatched)
    assert (dispatch.data.attempt, dispatch.data.not_before) == (2, NOW + timedelta(seconds=6))


async def test_what_a_delay_queue_loses_is_dispatched_again(harness: SupervisorHarness) -> None:
    await harness.publish(event_factory.failed(retry_after_seconds=5))
    harness.broker.purge("warrener.delay.5s")
    await harness.clock.advance(35)
    (dispatch,) = harness.dispatched()
    assert isinstance(dispatch, AttemptDispatched)
    assert dispatch.data.attempt == 2
    assert (await harness.row()).state is JobState.QUEUED


async def test_a_dead_job_leaves_a_dead_letter_and_publishes_it(harness: SupervisorHarness) -> None:
    error = event_factory.BOOM.model_copy(update={"retryable": False})
    await harness.publish(event_factory.failed(error=error))
    (dead_letter,) = await harness.store.dead_letter_store.list_dead_letters(DeadLetterFilter(states=()))
    assert dead_letter.reason == "no retry can mend it"
    kinds = [type(event) for event in harness.published(topology.EVENTS)]
    assert kinds == [JobFinished, JobDead, JobFinished]


def in_one_message(events: Sequence[Event[Any]]) -> Message:
    """As a tool may put it straight into the queue, without a routing key to compare."""
    messages = [build_message(event) for event in events]
    body = b"[" + b",".join(message.body for message in messages) + b"]"
    straight = messages[0]._replace(exchange="", routing_key=topology.STATUS_QUEUE.name)
    return straight._replace(body=body, content_type=BATCH_TYPE, headers={}, type="batch")


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
    row = await harness.row()
    assert (row.state, row.attempt, row.result, row.failures) == (JobState.SUCCEEDED, 3, 7, 2)
    assert [one.attempt for one in await harness.store.attempts_of([JOB])] == [1, 2, 3]
    assert not harness.dispatched(), "what is over is not dispatched any more"


async def test_i12_what_cannot_be_judged_is_parked_alone_with_its_reason(harness: SupervisorHarness) -> None:
    stranger = event_factory.succeeded(job_id=UUID(int=7))
    impossible = event_factory.started(9)
    garbage = Message(topology.STATUS, "x", b"{", "application/json", "garbage", "x", {})
    lost_its_way = build_message(heartbeat())._replace(exchange=topology.STATUS)
    await harness.publish(garbage, lost_its_way, stranger, impossible, event_factory.succeeded())
    await harness.clock.advance(1)
    assert await _reasons(harness) == ["impossible", "not_json", "routing_key_mismatch", "unknown_job"]
    assert (await harness.row()).state is JobState.SUCCEEDED
    assert harness.broker.ready(topology.STATUS_QUEUE.name) == 0


async def test_an_event_under_the_key_of_another_one_is_parked_and_so_it_is_when_it_is_requeued(
    harness: SupervisorHarness,
) -> None:
    before = await harness.row()
    message = build_message(event_factory.succeeded())._replace(routing_key="incident.snooze_requested")
    for _ in range(2):
        await harness.publish(message, then=1)
        (parked,) = await harness.store.parked()
        assert parked.reason == "routing_key_mismatch"
        assert (parked.exchange, parked.routing_key) == (topology.STATUS, "incident.snooze_requested")
        assert await harness.row() == before
        message = requeued_message(parked)


async def test_what_the_store_refuses_is_parked_and_the_others_are_saved(
    harness: SupervisorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = UUID(int=8)
    await harness.store.insert_jobs([replace(running_row(), job_id=other)])
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
    await harness.publish(in_one_message([event_factory.succeeded(job_id=other), event_factory.succeeded()]))
    await harness.clock.advance(1)
    assert (await harness.row()).state is JobState.SUCCEEDED
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
    assert (await harness.row()).state is JobState.CANCELLED
    handled, finished, *replies = harness.addresses(topology.EVENTS)
    assert (handled, finished) == ("reply.you", "job.finished.cancelled.flights.load")
    assert replies == ["reply.me", "reply.you"]
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
