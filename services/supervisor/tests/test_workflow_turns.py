"""Workflows wait in the store, and go on with a turn as soon as something that they wait for is there."""

from collections.abc import Awaitable, Callable, Collection
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from services.supervisor.tests import stage
from tests.store_rows import parked_message

from warrener_contracts import events, topology
from warrener_contracts.identity import child_job_id
from warrener_contracts.messages import build_message
from warrener_contracts.state_machine import JobState
from warrener_runtime.telemetry import Telemetry
from warrener_store.jobs.rows import JobRow, Save, evolve
from warrener_store.memory import MemoryStore
from warrener_store.parked.rows import ParkedMessage
from warrener_store.workflows.rows import MAX_SIGNALS, SignalRow, StoredTurn, TurnRow
from warrener_supervisor.decisions import workflow_turns
from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.effects import SupervisorPorts, divide
from warrener_supervisor.escalation.incident_reporter import IncidentReporter
from warrener_supervisor.limits import SlotKeeper
from warrener_supervisor.metrics import SupervisorMetrics
from warrener_supervisor.trace_spans import JobSpans
from warrener_supervisor.workflow_turns import TurnMaker

A, B = stage.call("a"), stage.call("b")
HOUR = timedelta(hours=1)


def done(call_id: str, result: Any = None) -> events.AttemptSucceeded:
    return stage.succeeded(result=result, job_id=child_job_id(stage.JOB, call_id))


def journal(dispatch: events.AttemptDispatched) -> list[tuple[list[Any], list[str]]]:
    """The results with which each turn began, and what it then called."""
    assert dispatch.data.journal is not None
    return [
        (
            [answer.result for answer in turn.answers],
            [call.call_id for call in turn.suspension.calls] if turn.suspension else [],
        )
        for turn in dispatch.data.journal.turns
    ]


def last(harness: stage.SupervisorHarness) -> events.AttemptDispatched:
    return max(harness.dispatched(), key=lambda dispatch: dispatch.data.attempt)


def answers(harness: stage.SupervisorHarness) -> list[events.Answer]:
    """The answers with which the last turn began."""
    dispatch = last(harness)
    assert dispatch.data.journal is not None
    return [*dispatch.data.journal.turns[-1].answers]


async def test_the_end_of_a_child_makes_the_next_turn_with_all_before_it() -> None:
    async with stage.opened(stage.running_row(), stage.child("a"), stage.child("b")) as harness:
        await harness.publish(stage.suspended(1, A))
        row = await harness.row()
        assert (row.state, row.suspensions, row.agent_id) == (JobState.SUSPENDED, 1, None)
        assert not harness.dispatched()
        await harness.publish(done("a", 7))
        row = await harness.row()
        assert (row.state, row.attempt) == (JobState.QUEUED, 2)
        await harness.publish(stage.started(2), stage.suspended(2, B), done("b", 8))
        first, second = harness.dispatched()
        assert journal(first) == [([], ["a"]), ([7], [])]
        assert journal(second) == [([], ["a"]), ([7], ["b"]), ([8], [])]
        assert await harness.store.attempts_of([stage.JOB]) == []


async def test_a_child_may_end_before_its_call_is_known() -> None:
    async with stage.opened(stage.running_row(), stage.child("a")) as harness:
        await harness.publish(done("a", 7))
        await harness.publish(stage.suspended(1, A))
        (dispatch,) = harness.dispatched()
        assert journal(dispatch) == [([], ["a"]), ([7], [])]


@pytest.mark.parametrize("repeats", [1, 2])
async def test_of_a_workflow_that_awaits_new_child_jobs_alone_the_journal_is_read_when_one_has_ended(
    monkeypatch: pytest.MonkeyPatch, repeats: int
) -> None:
    async with stage.opened(stage.running_row(), stage.child("a"), stage.child("b")) as harness:
        read = harness.store.stored_turns
        readings = list[UUID]()

        async def stored_turns(job_ids: Collection[UUID]) -> dict[UUID, list[StoredTurn]]:
            readings.extend(job_ids)
            return await read(job_ids)

        monkeypatch.setattr(harness.store, "stored_turns", stored_turns)
        await harness.publish(stage.suspended(1, A, awaits_these=True))
        row = await harness.row()
        assert row.wake_at == row.updated_at + workflow_turns.LOOK_AGAIN
        assert not readings, "nothing but the ends of its child jobs can wake it"
        assert (await harness.store.turns_of([stage.JOB]))[stage.JOB][0].suspension == events.Suspension(
            calls=(A,)
        )
        await harness.publish(done("a", 7))
        assert readings == [stage.JOB]
        await harness.publish(stage.started(2), done("b", 8))
        for _ in range(repeats):
            await harness.publish(stage.suspended(2, B, awaits_these=True))
        assert [answer.result for answer in answers(harness)] == [8], "it had ended before"


async def test_a_timer_beside_new_child_jobs_is_due_at_its_time() -> None:
    soon = stage.NOW + timedelta(seconds=20)
    async with stage.opened(stage.running_row(), stage.child("a")) as harness:
        await harness.publish(stage.suspended(1, A, awaits_these=True, wake_at=soon))
        assert (await harness.row()).wake_at == soon
        await harness.clock.advance(30)
        assert last(harness).data.attempt == 2


async def test_ends_that_come_together_are_one_turn_in_the_order_of_the_ends() -> None:
    async with stage.opened(stage.running_row(), stage.child("a"), stage.child("b")) as harness:
        await harness.publish(done("b", 8), then=1)
        await harness.publish(done("a", 7), then=1)
        await harness.publish(stage.suspended(1, A, B))
        assert [answer.result for answer in answers(harness)] == [8, 7]
        assert len(harness.dispatched()) == 1


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize(
    "step",
    [
        "succeed_jobs",
        "save_jobs",
        "keep_suspensions",
        "child_status",
        "wake_suspended",
        "stored_turns",
        "keep_answers",
    ],
)
@pytest.mark.parametrize("crashed", [1, 2])
@pytest.mark.parametrize("alone", [False, True])
async def test_a_crash_at_any_step_loses_no_turn(
    monkeypatch: pytest.MonkeyPatch, step: str, where: str, crashed: int, *, alone: bool
) -> None:
    """The store fails once, before or after it has carried out the n-th call of this kind."""
    async with stage.opened(stage.running_row(), stage.child("a"), stage.child("b")) as harness:
        stage.fail_store(monkeypatch, harness.store, step, crashed, where)
        await harness.publish(stage.suspended(1, A, awaits_these=alone), done("a", 7), then=12)
        second = stage.suspended(2, B, awaits_these=alone)
        await harness.publish(stage.started(2), second, done("b", 8), then=12)
        assert last(harness).data.attempt == 3
        assert journal(last(harness)) == [([], ["a"]), ([7], ["b"]), ([8], [])]
        assert {one.data.attempt for one in harness.dispatched()} == {2, 3}


async def test_a_turn_that_was_not_published_is_found_and_published_with_its_journal() -> None:
    async with stage.opened(stage.running_row(), stage.child("a", JobState.SUCCEEDED, result=7)) as harness:
        await harness.publish(stage.suspended(1, A))
        await harness.clock.advance(60)  # nothing has bound the queue of the agents: the message is gone
        journals = [journal(one) for one in harness.dispatched()]
        assert len(journals) > 1
        assert all(each == [([], ["a"]), ([7], [])] for each in journals)


async def test_a_repeated_suspension_changes_nothing_and_publishes_its_turn_again() -> None:
    async with stage.opened(stage.running_row(), stage.child("a", JobState.SUCCEEDED, result=7)) as harness:
        for _ in range(2):
            await harness.publish(stage.suspended(1, A))
        row = await harness.row()
        assert (row.attempt, row.suspensions) == (2, 1)
        assert [one.data.attempt for one in harness.dispatched()] == [2, 2]


async def look(harness: stage.SupervisorHarness) -> None:
    """Have another supervisor on the same store wake the workflow."""
    ports = SupervisorPorts(harness.bus, harness.store, harness.clock, Timings())
    spans = JobSpans(Telemetry.disabled(), harness.clock)
    maker = TurnMaker(
        ports,
        spans=spans,
        slots=SlotKeeper(ports, spans=spans, listed_jobs=set),
        reporter=IncidentReporter(harness.store.escalations, harness.clock),
        metrics=SupervisorMetrics(),
    )
    await maker.wake([stage.JOB])
    await harness.clock.advance(0)


@pytest.mark.parametrize("step", ["stored_turns", "keep_answers", "save_jobs"])
async def test_two_supervisors_make_a_turn_once(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """The second overtakes the first at this step, and sees another child whose end is there by then."""
    async with stage.opened(stage.running_row(), stage.child("a"), stage.child("b")) as harness:
        await harness.publish(stage.suspended(1, A, B))
        original: Callable[..., Awaitable[Any]] = getattr(harness.store, step)

        async def overtaken(*given: Any) -> Any:
            if step == "save_jobs" and given[0][0].row.state is not JobState.QUEUED:
                return await original(*given)
            monkeypatch.undo()
            await end(harness.store, "b", 8)
            await look(harness)
            return await original(*given)

        await end(harness.store, "a", 7)
        monkeypatch.setattr(harness.store, step, overtaken)
        await look(harness)
        (dispatch,) = harness.dispatched()
        found = [answer.result for answer in answers(harness)]
        assert found == ([7] if step == "save_jobs" else [7, 8])
        await harness.publish(stage.started(2), stage.suspended(2))
        assert len(harness.dispatched()) == (2 if step == "save_jobs" else 1), "the other answer is not lost"
        assert dispatch.data.attempt == 2


async def end(store: MemoryStore, call_id: str, result: Any) -> None:
    """Let the job of a call succeed, as a supervisor saves it before it wakes the workflow."""
    job_id = child_job_id(stage.JOB, call_id)
    row = (await store.jobs_by_id([job_id]))[job_id]
    over: dict[str, Any] = {"state": JobState.SUCCEEDED, "wake_at": None, "finished_at": stage.NOW}
    await store.save_jobs([Save(evolve(row, version=row.version + 1, result=result, **over))])


async def test_a_time_that_has_come_is_an_answer_to_no_call() -> None:
    async with stage.opened(stage.running_row()) as harness:
        wake_at = stage.NOW + timedelta(minutes=1)
        await harness.publish(stage.suspended(1, wake_at=wake_at), then=59)
        assert not harness.dispatched()
        await harness.clock.advance(2)
        (answer,) = answers(harness)
        assert (answer.call_id, answer.at >= wake_at) == (None, True)


async def test_ended_steps_make_the_next_turn_at_once() -> None:
    step = events.Call(call_id="s", kind=events.CallKind.STEP, name="total")
    result = events.Answer(call_id="s", at=stage.NOW, result=3)
    async with stage.opened(stage.running_row()) as harness:
        await harness.publish(stage.suspended(1, step, answers=(result,)))
        (dispatch,) = harness.dispatched()
        assert dispatch.data.journal is not None
        assert [one.attempt for one in dispatch.data.journal.turns] == [1, 2]


async def test_a_generation_begins_with_its_arguments_and_the_signals_that_are_left() -> None:
    first, second = stage.signal_call("1"), stage.signal_call("2")
    async with stage.opened(stage.running_row(), stage.child("a")) as harness:
        await harness.publish(sent(1), sent(2))
        await harness.publish(stage.suspended(1, A, first, second))
        assert [one.result for one in answers(harness)] == [{"box": 1}, {"box": 2}]
        await harness.publish(stage.started(2))
        on = stage.suspended(2, closed=("2",), continued={"order": 8})
        await harness.publish(on, on, done("a"))
        begun = last(harness).data
        assert (begun.attempt, begun.arguments) == (3, {"order": 8})
        assert begun.journal is not None
        assert (begun.journal.generation, journal(last(harness))) == (2, [([], [])])
        row = await harness.row()
        assert (row.generation, row.suspensions, row.arguments) == (2, 1, {"path": "a.csv"})
        await harness.publish(stage.started(3), stage.suspended(3, first))
        assert [(one.call_id, one.result) for one in answers(harness)] == [("1", {"box": 2})]
        assert last(harness).data.arguments == {"order": 8}
        assert [turn.attempt for turn in (await harness.store.turns_of([stage.JOB]))[stage.JOB]] == [2, 3, 4]


async def test_a_cancel_that_came_before_the_end_of_a_generation_undoes_its_calls() -> None:
    paid = stage.call("a", undo=True)
    async with stage.opened(stage.running_row(), stage.child("a")) as harness:
        await harness.publish(stage.suspended(1, paid), done("a"))
        await harness.publish(stage.started(2), stage.cancel())
        await harness.publish(stage.suspended(2, continued={"order": 8}))
        assert (await harness.row()).generation == 0
        assert [one.data.job_type for one in harness.requested()] == ["undo.a"]


async def test_a_generation_whose_arguments_have_not_come_waits_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with stage.opened(stage.running_row(attempt=1)) as harness:
        monkeypatch.setattr(harness.store, "keep_suspensions", _keep_nothing)
        await harness.publish(stage.suspended(1, continued={"order": 8}))
        await harness.clock.advance(7200)
        assert not harness.dispatched(), "with other arguments it would be another workflow"
        (incident,) = await harness.store.escalations.incidents()
        assert (incident.kind, incident.times) == ("workflow.journal_unreadable", 1)
        assert "or cancel the workflow" in str(incident.sample["text"])
        monkeypatch.undo()
        await harness.publish(stage.suspended(1, continued={"order": 8}))
        assert last(harness).data.arguments == {"order": 8}


async def test_a_generation_whose_arguments_never_come_can_be_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with stage.opened(stage.running_row(attempt=1), stage.child("a")) as harness:
        monkeypatch.setattr(harness.store, "keep_suspensions", _keep_nothing)
        await harness.publish(stage.suspended(1, continued={"order": 8}))
        await harness.publish(stage.cancel(), stage.cancel(job_id=child_job_id(stage.JOB, "a")))
        await harness.publish(stage.stopped(job_id=child_job_id(stage.JOB, "a")), then=120)
        assert (await harness.row()).state is JobState.CANCELLED


async def _keep_nothing(_: Any) -> None: ...


def sent(
    number: int, name: str = "packed", job_id: UUID = stage.JOB, **data: Any
) -> events.JobSignalRequested:
    fields = {"job_id": job_id, "name": name, "data": {"box": number}, "reply_to": "me", **data}
    return stage.event(events.JobSignalRequested, f"signal-{number}", **fields)


def replies(harness: stage.SupervisorHarness) -> list[events.CommandHandledData]:
    return [event.data for event in harness.all_of(events.CommandHandled)]


async def test_signals_are_received_in_order_once_each_and_may_come_early() -> None:
    two = stage.signal_call("1"), stage.signal_call("2")
    async with stage.opened(stage.running_row()) as harness:
        await harness.publish(sent(1), sent(1), sent(9, "other"))
        await harness.publish(stage.suspended(1, *two))
        assert [(one.call_id, one.result) for one in answers(harness)] == [("1", {"box": 1})]
        await harness.publish(stage.started(2), stage.suspended(2))
        await harness.publish(sent(1), sent(2))
        assert [(one.call_id, one.result) for one in answers(harness)] == [("2", {"box": 2})]
        assert len(harness.dispatched()) == 2
        assert all(reply.accepted for reply in replies(harness))


async def test_a_signal_is_refused_after_the_end_and_stored_before_the_beginning() -> None:
    unknown = UUID(int=7)
    async with stage.opened(stage.make(JobState.DEAD)) as harness:
        await harness.publish(sent(1), sent(2, job_id=unknown), sent(3, job_id=unknown, data="x" * 70_000))
        refused, stored, too_large = replies(harness)
        assert (refused.accepted, refused.detail) == (
            False,
            "expected a workflow that has not ended, got one that is dead",
        )
        assert (stored.accepted, "the signal is stored for it" in stored.detail) == (True, True)
        assert not too_large.accepted
        assert [one.data for one in (await harness.store.signals_of({unknown: ["packed"]}))[unknown]] == [
            {"box": 2}
        ]


@pytest.mark.parametrize("ends", [stage.failed, stage.lost, stage.released])
async def test_the_retry_of_a_turn_has_the_journal_of_the_turn(ends: Callable[[int], Any]) -> None:
    async with stage.opened(stage.running_row(), stage.child("a", JobState.SUCCEEDED, result=7)) as harness:
        await harness.publish(stage.suspended(1, A))
        await harness.publish(stage.started(2, at=stage.NOW), ends(2), then=10)
        again = last(harness)
        assert (again.data.attempt, journal(again)) == (3, [([], ["a"]), ([7], [])])
        await harness.publish(stage.started(3), stage.suspended(3, B))
        assert (await harness.row()).failures == 0, "a turn that has got on forgets the failures before it"
        await harness.store.insert_jobs([stage.child("b", JobState.SUCCEEDED, result=8)])
        await look(harness)
        assert journal(last(harness))[-3:] == [([7], []), ([], ["b"]), ([8], [])]


async def test_what_a_lost_turn_has_called_is_no_part_of_the_journal() -> None:
    later = stage.NOW + HOUR
    async with stage.opened(stage.make(JobState.RETRYING, attempt=2, due_at=later, wake_at=later)) as harness:
        await harness.publish(stage.suspended(1, A))
        row = await harness.row()
        assert (row.state, row.attempt, row.suspensions) == (JobState.RETRYING, 2, 0)
        assert await harness.store.turns_of([stage.JOB]) == {}


async def test_a_workflow_whose_turn_cannot_be_made_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    ill = UUID(int=7)
    rows: list[JobRow] = [
        stage.make(JobState.SUSPENDED, job_id=each, suspensions=1) for each in (stage.JOB, ill)
    ]
    original, tried = MemoryStore.stored_turns, list[int]()

    async def unreadable(store: MemoryStore, job_ids: Any) -> dict[UUID, list[StoredTurn]]:
        if ill in job_ids:
            tried.extend([1] if len(job_ids) == 1 else [])
            raise ValueError("ordered by the test")
        return await original(store, job_ids)

    monkeypatch.setattr(MemoryStore, "stored_turns", unreadable)
    async with stage.opened() as harness:
        await harness.store.insert_jobs(rows)
        wait = events.Suspension(wake_at=stage.NOW)
        await harness.store.keep_suspensions([TurnRow(job_id=stage.JOB, attempt=1, suspension=wait)])
        await harness.clock.advance(5)
        assert (await harness.row()).state is JobState.QUEUED
        await harness.clock.advance(60)
        assert len(tried) <= 7, "it is tried less and less often"
        (incident,) = await harness.store.escalations.incidents()
        assert (incident.subject, incident.times) == (str(ill), 1)
        monkeypatch.undo()
        await harness.store.keep_suspensions([TurnRow(job_id=ill, attempt=1, suspension=wait)])
        await harness.clock.advance(70)
        assert (await harness.row(ill)).attempt == 2


async def test_a_suspension_that_is_on_its_way_is_waited_for() -> None:
    """Its supervisor has died between saving the job and storing the suspension; then it comes again."""
    suspended = stage.make(JobState.SUSPENDED, suspensions=1, updated_at=stage.NOW)
    async with stage.opened(suspended, stage.child("a", JobState.SUCCEEDED, result=7)) as harness:
        await harness.publish(stage.cancel(), then=29)
        assert (await harness.row()).ending is JobState.CANCELLED, "it may have called something"
        await harness.publish(stage.suspended(1, A), then=3)
        assert (await harness.row()).state is JobState.CANCELLED


async def test_a_suspension_that_never_comes_is_forgotten_and_its_turn_runs_again() -> None:
    suspended = stage.make(JobState.SUSPENDED, attempt=2, suspensions=2, updated_at=stage.NOW)
    async with stage.opened(suspended, stage.child("a", JobState.SUCCEEDED)) as harness:
        first = TurnRow(job_id=stage.JOB, attempt=1, suspension=events.Suspension(calls=(A,)))
        given = (events.Answer(call_id="a", at=stage.NOW, result=7),)
        await harness.store.keep_suspensions([first])
        await harness.store.keep_answers([TurnRow(job_id=stage.JOB, attempt=2, answers=given)])
        await harness.clock.advance(45)
        row = await harness.row()
        assert (row.state, row.attempt, row.suspensions) == (JobState.QUEUED, 3, 1)
        assert journal(last(harness)) == [([], ["a"]), ([7], []), ([], [])]
        await harness.publish(stage.started(3), stage.suspended(3, B), then=1)
        await harness.store.insert_jobs([stage.child("b", JobState.SUCCEEDED, result=8)])
        await look(harness)
        assert answers(harness)[0].result == 8


async def test_the_journal_is_read_once_for_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage.opened(stage.running_row(), stage.child("a"), stage.child("b")) as harness:
        await harness.publish(stage.suspended(1, A))
        original, reads = harness.store.stored_turns, list[Any]()

        async def counted(job_ids: Any) -> Any:
            reads.append(job_ids)
            return await original(job_ids)

        monkeypatch.setattr(harness.store, "stored_turns", counted)
        await harness.publish(done("a", 7))
        assert last(harness).data.attempt == 2
        assert len(reads) == 1


async def test_long_journals_are_held_one_after_another() -> None:
    step = events.Answer(call_id="s", at=stage.NOW, result="x" * 5_000_000)
    ids = [UUID(int=number) for number in range(1, 24)]
    async with stage.opened() as harness:
        await harness.store.insert_jobs([stage.make(JobState.SUSPENDED, job_id=each) for each in ids])
        await harness.store.keep_answers(
            [TurnRow(job_id=each, attempt=1, answers=(step,)) for each in ids[:2]]
        )
        found = await divide(harness.store, ids)
        assert [len(some) for some in found] == [1, 20, 2]
        assert [each for some in found for each in some] == ids


async def test_the_ends_beyond_some_bytes_come_with_the_next_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow_turns, "MAX_ANSWERS", 10)
    children = [
        stage.child(each, JobState.SUCCEEDED, result=each * 20, finished_at=stage.NOW + timedelta(seconds=at))
        for at, each in enumerate("ab")
    ]
    async with stage.opened(stage.running_row(), *children) as harness:
        await harness.publish(stage.suspended(1, A, B))
        assert [one.call_id for one in answers(harness)] == ["a"]
        await harness.publish(stage.started(2), stage.suspended(2))
        assert [one.call_id for one in answers(harness)] == ["b"]


async def test_few_are_looked_at_before_the_message_is_acknowledged_and_the_others_are_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("warrener_supervisor.workflow_turns._AT_ONCE", 1)
    ids, later = [UUID(int=7), UUID(int=8)], stage.NOW + HOUR
    parents = [stage.make(JobState.SUSPENDED, job_id=each, suspensions=1, wake_at=later) for each in ids]
    calls = [stage.call("a", job_id=child_job_id(each, "a")) for each in ids]
    children = [
        stage.child("a", job_id=call.job_id, parent_id=each) for each, call in zip(ids, calls, strict=True)
    ]
    async with stage.opened(*parents, *children) as harness:
        await harness.store.keep_suspensions(
            [
                TurnRow(job_id=each, attempt=1, suspension=events.Suspension(calls=(call,)))
                for each, call in zip(ids, calls, strict=True)
            ]
        )
        await harness.publish(*[stage.succeeded(job_id=child.job_id) for child in children], then=0.1)
        assert [(await harness.row(each)).state for each in ids] == [JobState.QUEUED, JobState.SUSPENDED]
        await harness.clock.advance(1)
        assert (await harness.row(ids[1])).state is JobState.QUEUED


async def test_a_parent_that_is_no_workflow_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage.opened(stage.running_row(), stage.child("a")) as harness:
        read: set[UUID] = set()
        original = harness.store.jobs_by_id

        async def noted(job_ids: Any) -> Any:
            read.update(job_ids)
            return await original(job_ids)

        monkeypatch.setattr(harness.store, "jobs_by_id", noted)
        await harness.publish(done("a", 7))
        assert stage.JOB not in read


async def test_a_job_receives_so_many_signals_and_no_more() -> None:
    async with stage.opened(stage.running_row()) as harness:
        held = [
            SignalRow(job_id=stage.JOB, signal_id=f"s{number}", name="n", data=None, received_at=stage.NOW)
            for number in range(MAX_SIGNALS - 1)
        ]
        await harness.store.keep_signals(held)
        await harness.publish(sent(1), sent(2))
        await harness.publish(sent(1))
        assert [reply.accepted for reply in replies(harness)] == [True, False, True]
        assert replies(harness)[1].detail == "expected at most 1000 signals for a workflow, got one more"


async def test_two_senders_that_count_their_signals_alike_send_two() -> None:
    two = stage.signal_call("1"), stage.signal_call("2")
    async with stage.opened(stage.running_row()) as harness:
        theirs = sent(1, data={"box": 7}).model_copy(update={"source": "somebody/else"})
        await harness.publish(sent(1), theirs, sent(1), theirs)
        await harness.publish(stage.suspended(1, *two))
        assert [one.result for one in answers(harness)] == [{"box": 1}, {"box": 7}]


async def test_a_journal_that_cannot_be_read_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage.opened(stage.running_row(), stage.child("a", JobState.SUCCEEDED, result=7)) as harness:
        await harness.publish(stage.suspended(1, A))

        original = harness.store.stored_turns

        async def unreadable(job_ids: Any) -> Any:
            if job_ids:
                raise ValueError("ordered by the test")
            return await original(job_ids)

        monkeypatch.setattr(harness.store, "stored_turns", unreadable)
        await harness.publish(stage.started(2), stage.released(2), then=1)
        (incident,) = await harness.store.escalations.incidents()
        assert (incident.kind, incident.subject) == ("workflow.journal_unreadable", str(stage.JOB))
        assert str(incident.sample["text"]).endswith("ValueError: ordered by the test")


async def test_a_dispatch_that_agents_would_refuse_ends_its_workflow() -> None:
    step = events.Call(call_id="s", kind=events.CallKind.STEP, name="read")
    many = tuple(events.Answer(call_id="s", at=stage.NOW, result="é" * 32_000) for _ in range(66))
    async with stage.opened(stage.running_row(attempt=2, suspensions=1)) as harness:
        half = events.Suspension(calls=(step,), answers=many)
        await harness.store.keep_suspensions([TurnRow(job_id=stage.JOB, attempt=1, suspension=half)])
        await harness.publish(stage.suspended(2, answers=many), then=5)
        row = await harness.row()
        assert row.state is JobState.DEAD
        assert row.error is not None
        assert row.error.type == "JournalTooLarge"
        assert not harness.dispatched()


async def test_reports_that_an_earlier_release_has_parked_come_back_and_what_nobody_knows_stays() -> None:
    async with stage.opened(stage.running_row(), stage.child("a")) as harness:

        def parked(name: str, queue: str, body: bytes) -> ParkedMessage:
            of = {"reason": "unknown_event", "detail": "expected another", "parked_at": stage.NOW}
            return parked_message(name, queue=queue, body=body, **of)

        body = build_message(stage.suspended(1, A)).body
        signal = stage.event(events.JobSignalRequested, "signal-1", job_id=stage.JOB, name="packed")
        await harness.store.park(
            [
                parked("report", topology.STATUS_QUEUE.name, body),
                parked("signal", topology.SUPERVISOR_COMMANDS.name, build_message(signal).body),
                parked("unknown", topology.STATUS_QUEUE.name, body.replace(b"suspended.v1", b"suspended.v9")),
                parked("elsewhere", topology.REQUESTS_QUEUE.name, body),
                parked("nonsense", topology.STATUS_QUEUE.name, b"{"),
                parked("hostile", topology.STATUS_QUEUE.name, b'{"data":%b,"type":"of.nobody.v1"}' % body),
            ]
        )
        await harness.clock.advance(25)
        row = await harness.row()
        assert (row.state, row.suspensions) == (JobState.SUSPENDED, 1)
        assert [one.name for one in await harness.store.sent_signals(stage.JOB)] == ["packed"]
        left = {one.parked_id for one in await harness.store.parked()}
        assert left == {"unknown", "elsewhere", "nonsense", "hostile"}
        await harness.publish(done("a", 7))
        assert answers(harness)[-1].result == 7, "the workflow goes on"
