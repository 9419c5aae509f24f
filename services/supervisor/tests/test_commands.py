"""The supervisor's queue of commands: cancels, breakers, incidents and parked messages."""

from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from services.supervisor.tests import event_factory
from services.supervisor.tests.event_factory import running_row
from services.supervisor.tests.harness import SupervisorHarness

from warrener_contracts import topology
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.events import (
    AttemptCancel,
    BreakerSetRequested,
    BreakerSetRequestedData,
    CommandHandled,
    IncidentCloseRequested,
    IncidentCloseRequestedData,
)
from warrener_contracts.messages import BATCH_TYPE, Message, build_message
from warrener_contracts.state_machine import JobState

QUEUE = topology.SUPERVISOR_COMMANDS.name


@pytest.fixture
async def harness() -> AsyncIterator[SupervisorHarness]:
    """A supervisor, and a running job."""
    one = SupervisorHarness()
    await one.open(running_row())
    yield one
    await one.close()


async def parked(harness: SupervisorHarness) -> list[tuple[str, str]]:
    found = await harness.store.parked()
    return [(one.queue, one.reason) for one in found]


async def test_a_running_job_is_requested_to_stop(harness: SupervisorHarness) -> None:
    await harness.publish(event_factory.cancel(), then=1)
    assert (await harness.row()).cancel_reason is not None
    assert [type(event) for event in harness.published(topology.CONTROL)] == [AttemptCancel]


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING])
async def test_a_cancel_does_not_overtake_the_report_of_a_success(state: JobState) -> None:
    harness = SupervisorHarness()
    await harness.open(event_factory.make(state))
    harness.broker.mute(topology.STATUS_QUEUE.name)
    await harness.publish(event_factory.succeeded(), then=1)
    await harness.publish(event_factory.cancel(), then=1)
    harness.broker.mute(topology.STATUS_QUEUE.name, muted=False)
    await harness.clock.advance(1)
    assert (await harness.row()).state is JobState.SUCCEEDED
    await harness.close()


async def test_a_cancel_that_overtakes_its_request_ends_the_job(harness: SupervisorHarness) -> None:
    stranger = UUID(int=7)
    await harness.publish(event_factory.cancel(job_id=stranger), then=1)
    assert (await harness.store.jobs_by_id([stranger]))[stranger].state is JobState.CANCELLED


async def test_a_command_to_a_breaker_is_carried_out(harness: SupervisorHarness) -> None:
    data = BreakerSetRequestedData(name="dependency:billing", state=BreakerState.OPEN)
    await harness.publish(BreakerSetRequested(id="1", source="test", data=data), then=1)
    assert [row.state for row in await harness.store.breakers()] == [BreakerState.OPEN]


async def test_what_is_no_command_is_parked_alone(harness: SupervisorHarness) -> None:
    cancel, report = build_message(event_factory.cancel()), build_message(event_factory.succeeded())
    body = b"[" + b",".join((b'{"specversion":"1.0"}', report.body, cancel.body)) + b"]"
    await harness.publish(
        cancel._replace(body=body, content_type=BATCH_TYPE),
        Message(topology.COMMANDS, "parked.x", b"{", "application/json", "garbage", "x", {}),
        then=1,
    )
    assert {queue for queue, _ in await parked(harness)} == {QUEUE}
    assert len(await parked(harness)) == 3
    assert (await harness.row()).cancel_reason is not None
    assert (await harness.row()).state is JobState.RUNNING
    assert harness.broker.ready(QUEUE) == 0


def replies(harness: SupervisorHarness) -> list[tuple[str, bool, str]]:
    return [
        (event.data.command_id, event.data.accepted, event.data.detail)
        for event in harness.published(topology.EVENTS)
        if isinstance(event, CommandHandled)
    ]


async def test_the_requester_of_a_cancel_gets_its_effect(harness: SupervisorHarness) -> None:
    stranger = UUID(int=7)
    await harness.publish(event_factory.cancel("desk"), then=1)
    await harness.publish(event_factory.cancel("desk", job_id=stranger), then=1)
    await harness.publish(event_factory.succeeded(), then=1)
    assert replies(harness) == [
        ("cancel-1", True, "its agent stops it"),
        ("cancel-1", True, "no request with this id has come yet; the one that comes later is cancelled"),
    ]


async def test_a_cancel_that_comes_too_late_is_refused(harness: SupervisorHarness) -> None:
    await harness.publish(event_factory.succeeded(), then=1)
    await harness.publish(event_factory.cancel("desk"), event_factory.cancel(), then=1)
    assert replies(harness) == [
        ("cancel-1", False, "expected a job that has not ended, got one that is succeeded")
    ]
    assert await parked(harness) == []


async def test_a_command_to_an_unknown_incident_is_refused_and_one_to_a_breaker_is_answered(
    harness: SupervisorHarness,
) -> None:
    close = IncidentCloseRequestedData(fingerprint="no-such", by="ann", reply_to="desk")
    breaker = BreakerSetRequestedData(name="job:mail.send", state=BreakerState.CLOSED, reply_to="desk")
    await harness.publish(IncidentCloseRequested(id="1", source="test", data=close), then=1)
    await harness.publish(BreakerSetRequested(id="2", source="test", data=breaker), then=1)
    [(_, accepted, detail), handled] = replies(harness)
    assert (accepted, detail.partition(":")[0]) == (
        False,
        "expected the fingerprint of an open incident, got 'no-such'",
    )
    assert handled == ("2", True, "")
