"""What the next turn of a workflow is given, decided over plain rows."""

from datetime import datetime, timedelta
from typing import Any

from services.supervisor.tests import stage

from warrener_contracts import events
from warrener_contracts.identity import child_job_id
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import MAX_MESSAGE
from warrener_store.jobs.rows import JobRow, evolve
from warrener_store.workflows.rows import ChildEnd, SignalRow, TurnRow, WaitKind
from warrener_supervisor.decisions import workflow_turns

A, B, C = stage.call("a"), stage.call("b"), stage.call("c")
ROW = stage.make(JobState.SUSPENDED, suspensions=1)
STEP = events.Call(call_id="s", kind=events.CallKind.STEP, name="total")


def turn(attempt: int = 1, *calls: events.Call, given: tuple[events.Answer, ...] = (), **of: Any) -> TurnRow:
    suspension = events.Suspension(calls=calls, **of)
    return TurnRow(job_id=stage.JOB, attempt=attempt, answers=given, suspension=suspension)


def signal(number: int, name: str = "packed") -> SignalRow:
    at = stage.NOW + timedelta(seconds=number)
    return SignalRow(job_id=stage.JOB, signal_id=f"{name}-{number}", name=name, data=number, received_at=at)


def ended(call_id: str, seconds: float = 0, **changes: Any) -> ChildEnd:
    """How the job of a call has ended, some seconds after NOW."""
    plain: dict[str, Any] = dict.fromkeys(["error", "cancel_reason", "ending_reason", "result"])
    plain |= {"state": JobState.SUCCEEDED, "attempt": 1, "result_size": 0}
    at = stage.NOW + timedelta(seconds=seconds)
    return ChildEnd(job_id=child_job_id(stage.JOB, call_id), finished_at=at, **{**plain, **changes})


def decide(
    turns: list[TurnRow], *children: ChildEnd, signals: tuple[SignalRow, ...] = (), row: JobRow = ROW
) -> TurnRow | datetime:
    jobs = {child.job_id: child for child in children}
    return workflow_turns.next_turn(row, turns, signals, jobs, stage.NOW)


def answers(found: TurnRow | datetime) -> list[tuple[str | None, Any]]:
    assert isinstance(found, TurnRow), found
    return [(answer.call_id, answer.result) for answer in found.answers]


def test_ends_and_signals_come_in_the_order_of_their_times() -> None:
    calls = A, stage.signal_call("1"), B, C, stage.signal_call("2"), stage.signal_call("3", "paid")
    signals = signal(1), signal(2), signal(3)
    found = decide([turn(1, *calls)], ended("c", 1), ended("b", 1), ended("a", 2), signals=signals)
    assert [call_id for call_id, _ in answers(found)] == ["b", "c", "1", "a", "2"]


def test_a_job_that_ended_before_a_timeout_is_in_time_however_late_its_turn_is_made() -> None:
    began, due = stage.NOW - timedelta(hours=2), stage.NOW - timedelta(minutes=59)
    found = decide([turn(1, A, began_at=began, wake_at=due)], ended("a", -3600))
    assert isinstance(found, TurnRow)
    assert [answer.at for answer in found.answers] == [stage.NOW - timedelta(hours=1)]


def test_what_was_answered_received_or_closed_is_not_answered_again() -> None:
    given = (
        events.Answer(call_id="a", at=stage.NOW),
        events.Answer(call_id="1", at=stage.NOW, signal_id="packed-1"),
    )
    turns = [
        turn(1, A, B, stage.signal_call("1")),
        turn(2, stage.signal_call("2"), given=given, closed=("b",)),
    ]
    row = stage.make(JobState.SUSPENDED, attempt=2, suspensions=2)
    found = decide(turns, ended("a"), ended("b"), signals=(signal(1), signal(2)), row=row)
    assert answers(found) == [("2", 2)]


def test_the_time_that_a_workflow_sees_never_goes_back() -> None:
    ahead = stage.NOW + timedelta(minutes=1)
    found = decide([turn(1, STEP, A, answers=(events.Answer(call_id="s", at=ahead),))], ended("a"))
    assert isinstance(found, TurnRow)
    assert [answer.at for answer in found.answers] == [ahead]


def test_without_anything_it_waits_until_its_timer_or_for_a_quarter_of_an_hour() -> None:
    later = stage.NOW + workflow_turns.LOOK_AGAIN
    assert decide([turn(1, A)]) == later
    assert decide([turn(1, A, wake_at=later + timedelta(hours=1))]) == later
    assert decide([turn(1, A, wake_at=stage.FRESH)]) == stage.FRESH
    assert answers(decide([turn(1, A, wake_at=stage.NOW)])) == [(None, None)]
    assert answers(decide([turn(1, A, wake_at=stage.NOW)], ended("a"))) == [("a", None)]


def test_ended_steps_are_answers_that_the_journal_has_already() -> None:
    done = events.Answer(call_id="s", at=stage.NOW, result=3)
    assert answers(decide([turn(1, STEP, answers=(done,))])) == []


def test_a_turn_that_somebody_has_begun_keeps_its_answers() -> None:
    begun = TurnRow(job_id=stage.JOB, attempt=2, answers=(events.Answer(call_id="a", at=stage.NOW),))
    assert decide([turn(1, A, B), begun], ended("a"), ended("b")) is begun


def test_an_attempt_that_went_wrong_does_not_hide_the_answers_that_it_was_given() -> None:
    lost = TurnRow(job_id=stage.JOB, attempt=2, answers=(events.Answer(call_id="a", at=stage.NOW),))
    row = stage.make(JobState.SUSPENDED, attempt=3, suspensions=2)
    turns = [turn(1, A), lost, turn(3, B)]
    assert workflow_turns.is_stored(row, turns)
    assert not workflow_turns.is_stored(row, turns[:2]), "the suspension of attempt 3 is on its way"
    assert workflow_turns.awaited_jobs(turns) == [B.job_id]
    assert isinstance(decide(turns, ended("a"), row=row), datetime)


def test_a_result_that_is_too_large_is_an_error_that_names_the_job() -> None:
    found = decide([turn(1, A)], ended("a", result_size=70_000))
    assert isinstance(found, TurnRow)
    (answer,) = found.answers
    assert answer.error is not None
    assert (answer.result, answer.error.type, answer.error.retryable) == (None, "ResultTooLarge", False)
    assert str(A.job_id) in answer.error.message


def test_an_end_without_success_comes_with_its_reason() -> None:
    stack = stage.BOOM.model_copy(update={"stack": "…" * 1_000})
    children = (
        ended("a", state=JobState.DEAD, error=stack),
        ended("b", state=JobState.CANCELLED, cancel_reason="no need"),
        ended("c", state=JobState.EXPIRED),
    )
    found = decide([turn(1, A, B, C)], *children)
    assert isinstance(found, TurnRow)
    assert [(one.state, one.error and one.error.message) for one in found.answers] == [
        (JobState.DEAD, "boom"),
        (JobState.CANCELLED, "no need"),
        (JobState.EXPIRED, "the job is expired"),
    ]
    assert found.answers[0].error == stage.BOOM, "without its stack"


def test_a_workflow_that_waits_is_looked_at_less_and_less_often() -> None:
    def waits(minutes: float) -> timedelta:
        row = stage.make(JobState.SUSPENDED, suspensions=1, updated_at=stage.NOW - timedelta(minutes=minutes))
        again = decide([turn(1, A)], row=row)
        assert isinstance(again, datetime)
        return again - stage.NOW

    assert [waits(each) / timedelta(minutes=1) for each in (0, 15, 30, 60, 600)] == [15, 15, 30, 60, 240]


def test_a_turn_whose_suspension_is_lost_is_repeated_with_its_answers() -> None:
    lost = TurnRow(job_id=stage.JOB, attempt=2, answers=(events.Answer(call_id="a", at=stage.NOW),))
    row = stage.make(JobState.SUSPENDED, attempt=2, suspensions=2, updated_at=stage.NOW)
    turns = [turn(1, A), lost]
    assert not workflow_turns.is_stored(row, turns)
    row = workflow_turns.without_lost(row, turns)
    assert workflow_turns.is_stored(row, turns)
    found = decide(turns, ended("a"), row=row)
    assert isinstance(found, TurnRow)
    assert (found.attempt, found.answers) == (3, ())


def test_a_dispatch_that_agents_would_refuse_is_too_large() -> None:
    assert workflow_turns.MAX_DISPATCH < MAX_MESSAGE
    assert workflow_turns.dispatch_excess(workflow_turns.MAX_DISPATCH) is None
    assert "have 9000000 bytes" in (workflow_turns.dispatch_excess(9_000_000) or "")


def test_the_first_of_several_things_that_a_workflow_waits_for_is_its_wait() -> None:
    mapped = events.Call(call_id="m", kind=events.CallKind.MAP, name="files.load")

    def wait(*calls: events.Call, row: JobRow = ROW) -> WaitKind:
        return workflow_turns.wait_of(row, [turn(1, *calls)]).kind

    assert wait(stage.signal_call("1"), A) is wait(mapped) is WaitKind.CHILD
    assert wait(stage.signal_call("1"), STEP) is WaitKind.SIGNAL
    assert wait(STEP) is wait() is WaitKind.TIMER
    assert wait(A, row=evolve(ROW, ending_reason="failed")) is WaitKind.HELD
    assert wait(A, row=evolve(ROW, ending=JobState.DEAD, ending_reason="failed")) is WaitKind.END
