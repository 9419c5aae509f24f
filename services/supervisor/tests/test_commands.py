"""The supervisor's queue of commands: cancels, breakers, incidents and parked messages."""

from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest
from services.supervisor.tests import event_factory
from services.supervisor.tests.harness import SupervisorHarness, opened
from tests.store_rows import job_type_row

from warrener_contracts import topology
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.events import (
    BreakerSetRequested,
    BreakerSetRequestedData,
    CommandHandled,
    IncidentCloseRequested,
    IncidentCloseRequestedData,
    ParkedDropRequested,
    ParkedDropRequestedData,
)
from warrener_contracts.messages import BATCH_TYPE, Message, build_message
from warrener_contracts.state_machine import JobState
from warrener_store import StoreUnavailable
from warrener_supervisor.requeue import ParkedMessageRequeuer

QUEUE = topology.SUPERVISOR_COMMANDS.name
DROP = ParkedDropRequested(id="1", source="test", data=ParkedDropRequestedData(ids=("0" * 32,), by="ann"))


async def parked(harness: SupervisorHarness) -> list[tuple[str, str]]:
    found = await harness.store.parked()
    return [(one.queue, one.reason) for one in found]


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING])
async def test_a_cancel_does_not_overtake_the_report_of_a_success(state: JobState) -> None:
    async with opened(event_factory.make(state)) as harness:
        harness.broker.mute(topology.STATUS_QUEUE.name)
        await harness.publish(event_factory.succeeded(), then=1)
        await harness.publish(event_factory.cancel(), then=1)
        harness.broker.mute(topology.STATUS_QUEUE.name, muted=False)
        await harness.clock.advance(1)
        assert (await harness.row()).state is JobState.SUCCEEDED


def fail_with(error: Exception) -> Callable[..., Awaitable[None]]:
    async def carry_out(*_: object) -> None:
        raise error

    return carry_out


async def test_2_a_command_that_fails_by_a_bug_is_parked_and_the_next_is_carried_out(
    harness: SupervisorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ParkedMessageRequeuer, "carry_out", fail_with(KeyError("a bug")))
    await harness.publish(DROP, event_factory.cancel(), then=600)
    assert await parked(harness) == [(QUEUE, "rejected")]
    assert (await harness.row()).cancel_reason is not None


async def test_2_a_command_that_meets_an_outage_waits_for_its_end(
    harness: SupervisorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as outage:
        outage.setattr(ParkedMessageRequeuer, "carry_out", fail_with(StoreUnavailable("no answer")))
        await harness.publish(DROP, event_factory.cancel(), then=1200)
        assert (await harness.row()).cancel_reason is None
    await harness.clock.advance(600)
    assert not await parked(harness)
    assert (await harness.row()).cancel_reason is not None


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


async def test_commands_to_an_unknown_incident_and_breaker_are_refused_and_one_to_a_breaker_is_answered(
    harness: SupervisorHarness,
) -> None:
    await harness.store.put_job_types([job_type_row("mail.send")])
    close = IncidentCloseRequestedData(fingerprint="no-such", by="ann", reply_to="desk")
    breaker = BreakerSetRequestedData(name="job:mail.send", state=BreakerState.OPEN, reply_to="desk")
    await harness.publish(IncidentCloseRequested(id="1", source="test", data=close), then=1)
    await harness.publish(BreakerSetRequested(id="2", source="test", data=breaker), then=1)
    typo = breaker.model_copy(update={"name": "job:mail.sent"})
    await harness.publish(BreakerSetRequested(id="3", source="test", data=typo), then=1)
    for event_id, name in (("4", "queue:defualt"), ("5", "queue:default")):
        pause = breaker.model_copy(update={"name": name})
        await harness.publish(BreakerSetRequested(id=event_id, source="test", data=pause), then=1)
    [(_, accepted, detail), handled, refused, no_queue, paused] = replies(harness)
    sentence = "expected the name of a breaker, got 'queue:defualt'; there are queue:default"
    assert (no_queue, paused) == (("4", False, sentence), ("5", True, ""))
    sentence = "expected the name of a breaker, got 'job:mail.sent'; there are job:mail.send"
    assert refused == ("3", False, sentence)
    assert (accepted, detail.partition(":")[0]) == (
        False,
        "expected the fingerprint of an open incident, got 'no-such'",
    )
    assert handled == ("2", True, "")
    assert {row.state for row in await harness.store.breakers()} == {BreakerState.OPEN}
