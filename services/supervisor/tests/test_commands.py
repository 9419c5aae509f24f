"""The supervisor's commands: cancels of jobs and trees, breakers, incidents and parked messages."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from services.supervisor.tests.stage import (
    JOB,
    NOW,
    SupervisorHarness,
    cancel,
    event,
    lost,
    make,
    opened,
    started,
    succeeded,
)
from tests.security.attacks import attack
from tests.store_rows import job_type_row

from warrener_contracts import events, topology
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.codec import DecodedEvent
from warrener_contracts.commands import ReceivedCommand
from warrener_contracts.messages import BATCH_TYPE, Message, build_message, cancel_behind_reports
from warrener_contracts.policy import JobPolicy, Limit
from warrener_contracts.state_machine import JobState
from warrener_runtime.virtual_clock import VirtualClock
from warrener_store import StoreUnavailable
from warrener_store.jobs.rows import JobRow
from warrener_store.memory import MemoryStore
from warrener_supervisor.cancel_tree import CancelMarks
from warrener_supervisor.decisions.outcomes import describe_cancel
from warrener_supervisor.requeue import ParkedMessageRequeuer

QUEUE = topology.SUPERVISOR_COMMANDS.name
DROP = event(events.ParkedDropRequested, ids=("0" * 32,), by="ann")


async def parked(harness: SupervisorHarness) -> list[tuple[str, str]]:
    found = await harness.store.parked()
    return [(one.queue, one.reason) for one in found]


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING])
async def test_a_cancel_does_not_overtake_the_report_of_a_success(state: JobState) -> None:
    async with opened(make(state)) as harness:
        harness.broker.mute(topology.STATUS_QUEUE.name)
        await harness.publish(succeeded(), then=1)
        await harness.publish(cancel(), then=1)
        harness.broker.mute(topology.STATUS_QUEUE.name, muted=False)
        await harness.clock.advance(1)
        assert (await harness.row()).state is JobState.SUCCEEDED


@attack(
    "operator", "leaves marks of cancels under forged sources", refused="marks of all sources are limited"
)
async def test_marks_of_cancels_are_limited_for_each_source_and_for_all_together() -> None:
    store, clock = MemoryStore(), VirtualClock()
    marks = CancelMarks(store, clock, 1)

    async def refused(*sources: str, user: str | None = None) -> list[bool]:
        cancels = [cancel(job_id=uuid4()).model_copy(update={"source": source}) for source in sources]
        received = [ReceivedCommand(one, DecodedEvent(one, b""), user) for one in cancels]
        return [why is not None for why in await marks.refusals(received)]

    assert await refused("a", "b", "a") == [False, False, True]
    assert await refused(*(f"forged {number}" for number in range(100))) == [False] * 98 + [True] * 2
    assert await refused("c", "d", user="ann") == [False, True], "a user has one share, whatever its sources"
    assert await refused("c", user="ben") == [False], "forged sources use up no share of a user"
    await clock.advance(10)
    assert await refused("a") == [False], "none of them came to the store"


def fail_with(error: Exception) -> Callable[..., Awaitable[None]]:
    async def carry_out(*_: object) -> None:
        raise error

    return carry_out


async def test_2_a_command_that_fails_by_a_bug_is_parked_and_the_next_is_carried_out(
    harness: SupervisorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ParkedMessageRequeuer, "carry_out", fail_with(KeyError("a bug")))
    await harness.publish(DROP, cancel(), then=600)
    assert await parked(harness) == [(QUEUE, "rejected")]
    assert (await harness.row()).cancel_reason is not None


async def test_2_a_command_that_meets_an_outage_waits_for_its_end(
    harness: SupervisorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as outage:
        outage.setattr(ParkedMessageRequeuer, "carry_out", fail_with(StoreUnavailable("no answer")))
        await harness.publish(DROP, cancel(), then=1200)
        assert (await harness.row()).cancel_reason is None
    await harness.clock.advance(600)
    assert not await parked(harness)
    assert (await harness.row()).cancel_reason is not None


async def test_what_is_no_command_is_parked_alone(harness: SupervisorHarness) -> None:
    wanted, report = build_message(cancel()), build_message(succeeded())
    body = b"[" + b",".join((b'{"specversion":"1.0"}', report.body, wanted.body)) + b"]"
    await harness.publish(
        wanted._replace(body=body, content_type=BATCH_TYPE),
        Message(topology.COMMANDS, "parked.x", b"{", "application/json", "garbage", "x", {}),
        then=1,
    )
    assert {queue for queue, _ in await parked(harness)} == {QUEUE}
    assert len(await parked(harness)) == 3
    assert (await harness.row()).cancel_reason is not None
    assert (await harness.row()).state is JobState.RUNNING
    assert harness.broker.ready(QUEUE) == 0


def replies(harness: SupervisorHarness) -> list[tuple[str, bool, str]]:
    handled = [event.data for event in harness.all_of(events.CommandHandled)]
    return [(data.command_id, data.accepted, data.detail) for data in handled]


async def test_the_requester_of_a_cancel_gets_its_effect(harness: SupervisorHarness) -> None:
    stranger = UUID(int=7)
    await harness.publish(cancel("desk"), then=1)
    await harness.publish(cancel("desk", job_id=stranger), then=1)
    await harness.publish(succeeded(), then=1)
    assert replies(harness) == [
        ("cancel-1", True, "its agent stops it"),
        ("cancel-1", True, "no request with this id has come yet; the one that comes later is cancelled"),
    ]
    await harness.publish(cancel("desk").model_copy(update={"id": "late"}), cancel(), then=1)
    too_late = "expected a job that has not ended, got one that is succeeded"
    assert replies(harness)[2:] == [("late", False, too_late)]
    assert await parked(harness) == []


async def test_the_cancel_of_a_workflow_promises_undos_only_of_what_has_one(
    harness: SupervisorHarness,
) -> None:
    row = await harness.row()
    ending = replace(row, state=JobState.SUSPENDED, suspensions=1, ending=JobState.CANCELLED)
    effect = "its child jobs end, what has an undo is undone, then it is cancelled"
    assert describe_cancel(row, ending, tree=False) == (True, effect)


async def test_commands_to_an_unknown_incident_and_breaker_are_refused_and_one_to_a_breaker_is_answered(
    harness: SupervisorHarness,
) -> None:
    await harness.store.put_job_types([job_type_row("mail.send")])
    close = event(events.IncidentCloseRequested, fingerprint="no-such", by="ann", reply_to="desk")
    await harness.publish(close, then=1)
    names = ("job:mail.send", "job:mail.sent", "queue:defualt", "queue:default")
    for number, name in enumerate(names, 2):
        request = event(
            events.BreakerSetRequested, str(number), name=name, state=BreakerState.OPEN, reply_to="desk"
        )
        await harness.publish(request, then=1)
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
    opened = {row.name: row.state for row in await harness.store.breakers()}
    assert opened == dict.fromkeys(("job:mail.send", "queue:default"), BreakerState.OPEN)


async def test_the_slots_of_a_gate_are_set_and_reset_and_both_are_recorded(
    harness: SupervisorHarness,
) -> None:
    policy = JobPolicy(gates=(Limit(2, pool="crm"),))
    await harness.store.put_job_types([job_type_row("mail.send", policy=policy)])
    tries = (("pool/crm", 5), ("pool/crn", 5), ("pool/crm", None), ("pool/crm", None))
    for number, (name, slots) in enumerate(tries):
        fields = {"name": name, "slots": slots, "by": "ann", "reason": "slow", "reply_to": "desk"}
        await harness.publish(event(events.GateSetRequested, str(number), **fields), then=1)
        if number == 0:
            assert (await harness.store.gate_rooms(["pool/crm"]))["pool/crm"].slots == 5
    assert [accepted for _, accepted, _ in replies(harness)] == [True, False, True, True]
    assert "got 'pool/crn'" in replies(harness)[1][2]
    records = await harness.store.audit_records()
    assert [(one.action, one.subject, one.actor, one.reason) for one in records] == [
        ("gate.reset", "pool/crm", "ann", "slow"),
        ("gate.reset", "pool/crm", "ann", "slow"),
        ("gate.set", "pool/crm", "ann", "slow"),
    ]


TREE = f"with the tree of {JOB}: wrong file"


@pytest.fixture
async def empty() -> AsyncIterator[SupervisorHarness]:
    async with opened() as one:
        yield one


def job(number: int, parent: UUID | None = JOB, state: JobState = JobState.QUEUED, **more: Any) -> JobRow:
    return make(state, job_id=UUID(int=number), parent_id=parent, **more)


def cancel_all(job_id: UUID = JOB, *, tree: bool = True, **more: Any) -> Message:
    fields = {"job_id": job_id, "reason": "wrong file", "tree": tree, **more}
    return cancel_behind_reports(event(events.JobCancelRequested, f"cancel {job_id}", **fields))


async def state(empty: SupervisorHarness, number: int) -> tuple[JobState, str | None]:
    row = (await empty.store.jobs_by_id([UUID(int=number)]))[UUID(int=number)]
    return row.state, row.cancel_reason


async def test_a_tree_is_cancelled_whatever_each_of_it_does(empty: SupervisorHarness) -> None:
    root = make(JobState.SUCCEEDED, attempt=1)
    runs = job(2, state=JobState.RUNNING, lease_until=NOW.replace(hour=13), wake_at=NOW.replace(hour=13))
    below = job(4, parent=UUID(int=2), state=JobState.WAITING)
    done = job(5, state=JobState.SUCCEEDED, attempt=1)
    below_done = job(6, parent=UUID(int=5), state=JobState.RETRYING, attempt=2)
    stranger = job(7, parent=None)
    await empty.store.insert_jobs([root, runs, job(3), below, done, below_done, stranger])
    await empty.publish(cancel_all(), then=1)
    assert (await empty.store.jobs_by_id([JOB]))[JOB].state is JobState.SUCCEEDED, "what is over stays"
    assert await state(empty, 2) == (JobState.RUNNING, TREE), "its agent is told to stop it"
    for number in (3, 4, 6):
        assert await state(empty, number) == (JobState.CANCELLED, TREE)
    assert await state(empty, 5) == (JobState.SUCCEEDED, None)
    assert await state(empty, 7) == (JobState.QUEUED, None)
    members = [JOB, *(UUID(int=number) for number in range(2, 7))]
    assert (await empty.store.cancelled_among(members)).keys() == set(members), "none of them grows on"
    assert UUID(int=2) in {event.data.job_id for event in empty.all_of(events.AttemptCancel)}


async def test_the_same_again_publishes_the_same_and_changes_nothing(empty: SupervisorHarness) -> None:
    await empty.store.insert_jobs([make(), job(2)])
    await empty.publish(cancel_all(), then=1)
    before = await empty.store.jobs_by_id([JOB, UUID(int=2)])
    await empty.publish(cancel_all()._replace(message_id="again"), then=1)
    assert await empty.store.jobs_by_id([JOB, UUID(int=2)]) == before


async def test_parents_that_go_round_in_a_circle_are_walked_once(empty: SupervisorHarness) -> None:
    await empty.store.insert_jobs([make(parent_id=UUID(int=2)), job(2)])
    await empty.publish(cancel_all(), then=1)
    assert await state(empty, 2) == (JobState.CANCELLED, TREE)
    assert empty.broker.ready(topology.STATUS_QUEUE.name) == 0


async def test_the_reason_arrives_with_the_end(empty: SupervisorHarness) -> None:
    await empty.store.insert_jobs([make()])
    await empty.publish(cancel_all(tree=False, reply_to="me"), then=1)
    ends = {(end.data.state, end.data.reason) for end in empty.all_of(events.JobFinished)}
    assert ends == {(JobState.CANCELLED, "wrong file")}
    assert "reply.me" in empty.addresses(topology.EVENTS)


async def test_an_agent_that_takes_over_what_is_to_be_cancelled_is_stopped_at_once(
    empty: SupervisorHarness,
) -> None:
    future = NOW.replace(hour=13)
    row = make(JobState.RUNNING, lease_until=future, wake_at=future, cancel_reason="wrong file")
    await empty.store.insert_jobs([row])
    await empty.publish(started(agent="agent-2", at=NOW), then=1)
    assert [event.data.attempt for event in empty.all_of(events.AttemptCancel)] == [None]


async def test_what_was_lost_and_cancelled_is_marked_by_the_agents_that_live(
    empty: SupervisorHarness,
) -> None:
    """The lost one may come back: it finds the mark in the ledger that it shares with them."""
    await empty.store.insert_jobs([make(JobState.RUNNING, cancel_reason="wrong file")])
    await empty.publish(lost(), then=1)
    assert (await empty.store.jobs_by_id([JOB]))[JOB].state is JobState.CANCELLED
    assert [event.data.job_id for event in empty.published(topology.CONTROL)] == [JOB]
