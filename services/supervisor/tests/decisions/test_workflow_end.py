"""The steps of a workflow's end, decided over plain rows."""

from datetime import timedelta
from typing import Any

from services.supervisor.tests import stage

from warrener_contracts import events
from warrener_contracts.identity import undo_job_id
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow
from warrener_store.workflows.rows import ChildEnd, ChildStatus, TurnRow
from warrener_supervisor.decisions import workflow_end
from warrener_supervisor.decisions.workflow_end import AwaitUndo, CancelChildren, FinishEnd, UndoCall

A, B = stage.call("a", undo=True), stage.call("b", undo=True)
ROW = stage.make(JobState.SUSPENDED, suspensions=1, ending=JobState.EXPIRED, ending_reason="too late")
DONE = JobState.SUCCEEDED


def undo(call: events.Call, state: JobState, **changes: Any) -> JobRow:
    return stage.make(state, job_id=undo_job_id(stage.JOB, call.call_id), **changes)


def status(job: JobRow) -> ChildStatus:
    return ChildStatus(job.job_id, job.state, job.attempt, job.finished_at, job.cancel_reason is not None)


def step(
    *jobs: JobRow,
    calls: tuple[events.Call, ...] = (A, B),
    running: tuple[JobRow, ...] = (),
    row: JobRow = ROW,
) -> workflow_end.EndStep:
    turns = [TurnRow(job_id=stage.JOB, attempt=1, suspension=events.Suspension(calls=calls))]
    found = {job.job_id: status(job) for job in (*jobs, *running)}
    return workflow_end.next_step(row, turns, found, [job.job_id for job in running])


def test_children_are_cancelled_once_and_awaited() -> None:
    assert A.job_id is not None
    assert B.job_id is not None
    assert step(stage.child("a"), stage.child("b", DONE)) == CancelChildren((A.job_id,))
    assert step(stage.child("a", cancel_reason="it ends"), stage.child("b", DONE)) == CancelChildren(())
    assert step(stage.child("a", DONE)) == CancelChildren((B.job_id,)), "its request may still come"
    stray = stage.child("of a turn that was stopped")
    assert step(stage.child("a", DONE), stage.child("b", DONE), running=(stray,)) == CancelChildren(
        (stray.job_id,)
    )


def test_calls_are_undone_one_at_a_time_the_newest_first() -> None:
    children = stage.child("a", DONE), stage.child("b", JobState.DEAD)
    assert step(*children) == UndoCall(B, stage.NOW)
    assert step(*children, undo(B, JobState.RUNNING)) == AwaitUndo()
    assert step(*children, undo(B, DONE)) == UndoCall(A, stage.NOW)
    failed = undo(A, JobState.DEAD)
    assert step(*children, undo(B, DONE), failed) == FinishEnd((B,), ((A, status(failed)),), stage.NOW)


def test_what_has_done_nothing_or_goes_on_is_not_undone() -> None:
    plain, detached = stage.call("a"), B.model_copy(update={"detached": True})
    never = stage.child("b", JobState.CANCELLED, attempt=0)
    nothing = FinishEnd(last_end=stage.NOW)
    assert step(stage.child("a", DONE), never, calls=(plain, B)) == nothing
    assert step(stage.child("a", DONE), stage.child("b"), calls=(plain, detached)) == nothing


def test_after_a_success_children_are_cancelled_and_nothing_is_undone() -> None:
    over, detached = stage.make(DONE, suspensions=1), B.model_copy(update={"detached": True})
    assert A.job_id is not None
    running = stage.child("a"), stage.child("b")
    assert step(running=running, calls=(A, detached), row=over) == CancelChildren((A.job_id,))
    assert step(stage.child("a", DONE), row=over) == FinishEnd()


def test_supervisors_that_publish_an_end_at_different_times_publish_the_same() -> None:
    end = FinishEnd((A,), last_end=stage.NOW + timedelta(seconds=3))
    first, second = (workflow_end.finished(ROW, end, stage.NOW + timedelta(seconds=n)) for n in (4, 9))
    assert first.row.finished_data() == second.row.finished_data()


def test_calls_of_a_turn_that_is_reported_after_the_end_are_undone_and_nothing_else_is_awaited() -> None:
    ended, calls = stage.make(JobState.CANCELLED), (A, B.model_copy(update={"detached": True}))
    assert step(calls=calls, row=ended) == FinishEnd(), "its requests meet the mark of the tree"
    assert step(stage.child("a"), stage.child("b"), calls=calls, row=ended) == CancelChildren(
        (stage.child("a").job_id,)
    )
    assert step(stage.child("a", DONE), stage.child("b", DONE), calls=calls, row=ended) == UndoCall(
        A, stage.NOW
    )


def test_the_end_names_the_calls_that_were_undone_and_those_that_could_not_be() -> None:
    failed = status(undo(A, JobState.DEAD))
    why = ChildEnd(failed.job_id, JobState.DEAD, 1, stage.NOW, stage.BOOM, None, None, 0, None)
    end = FinishEnd((B,), ((A, failed),))
    decision = workflow_end.finished(ROW, end, stage.NOW)
    text = "too late; undone: shop.b; could not be undone: shop.a"
    assert (decision.row.state, decision.row.ending, decision.row.ending_reason) == (
        JobState.EXPIRED,
        None,
        text,
    )
    assert stage.error_of(decision).message == text
    (incident,) = workflow_end.failed_undos(ROW, end, {failed.job_id: why}, stage.NOW)
    assert str(incident.sample["text"]).endswith("of type undo.a is dead: boom")
    assert (incident.subject, incident.occurrence) == (str(stage.JOB), str(failed.job_id))


def test_many_calls_are_counted() -> None:
    calls = tuple(stage.call(str(number)) for number in range(14))
    decision = workflow_end.finished(ROW, FinishEnd(calls), stage.NOW)
    assert str(decision.row.ending_reason).endswith("shop.9 and 4 more")
