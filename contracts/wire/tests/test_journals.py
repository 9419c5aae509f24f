"""What follows from the turns of a workflow: its calls, those that are open, answers and the next timer."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from warrener_contracts import journals
from warrener_contracts.events import Answer, Call, CallKind, StepRetry, Suspension, Turn
from warrener_contracts.state_machine import JobState

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def call(name: str, kind: CallKind = CallKind.JOB) -> Call:
    return Call(call_id=name, kind=kind, name=name)


def answer(name: str | None, seconds: float, result: str = "") -> Answer:
    return Answer(call_id=name, at=after(seconds), result=result)


def turn(attempt: int, answers: Sequence[Answer] = (), suspension: Suspension | None = None) -> Turn:
    return Turn(attempt=attempt, answers=tuple(answers), suspension=suspension)


CHARGE, SHIP, LOOK = call("charge"), call("ship"), call("look", CallKind.STEP)
PACKED, LATE = call("packed", CallKind.SIGNAL), call("late", CallKind.SIGNAL)
FIRST = turn(
    1,
    suspension=Suspension(
        calls=(CHARGE, LOOK, PACKED),
        answers=(answer("look", 2, "seen"),),
        wake_at=after(60),
        timer_line="orders.py:4",
    ),
)
FAILED = turn(2, [answer("charge", 5, "paid")])
THIRD = turn(3, [answer(None, 60)], Suspension(calls=(SHIP, LATE), closed=("packed",)))


def test_a_call_is_open_until_it_has_an_answer_or_is_closed() -> None:
    assert journals.open_calls([]) == []
    assert journals.open_calls([FIRST]) == [CHARGE, PACKED]
    assert journals.open_calls([FIRST, FAILED]) == [PACKED]
    assert journals.open_calls([FIRST, FAILED, THIRD]) == [SHIP, LATE]
    assert journals.all_calls([FIRST, FAILED, THIRD]) == [CHARGE, LOOK, PACKED, SHIP, LATE]


def test_a_marker_of_changed_code_is_no_call() -> None:
    marked = turn(1, suspension=Suspension(calls=(call("weigh first", CallKind.MARKER), CHARGE)))
    assert journals.all_calls([marked]) == journals.open_calls([marked]) == [CHARGE]


def test_answers_stand_in_the_order_in_which_the_workflow_sees_them_and_the_first_counts() -> None:
    repeated = turn(4, [answer("charge", 9, "paid again"), answer("ship", 9, "gone")])
    found = journals.answers_by_call([FIRST, FAILED, THIRD, repeated])
    assert [(name, one.result) for name, one in found.items()] == [
        ("look", "seen"),
        ("charge", "paid"),
        ("ship", "gone"),
    ]


def test_a_step_that_failed_has_its_last_retry_until_it_has_an_answer() -> None:
    def waits(tries: int) -> Suspension:
        retry = StepRetry(call_id="look", tries=tries, retry_at=after(60 * tries), error="OSError: down")
        return Suspension(calls=(LOOK,) if tries == 1 else (), retries=(retry,))

    first, second = turn(1, suspension=waits(1)), turn(2, suspension=waits(2))
    assert {name: one.tries for name, one in journals.open_retries([first, second]).items()} == {"look": 2}
    assert journals.open_calls([first, second]) == [LOOK]
    assert journals.open_retries([first, second, turn(3, [answer("look", 90)])]) == {}


def test_a_timer_counts_until_the_next_turn_begins() -> None:
    assert journals.next_timer([FIRST]) == (after(60), "orders.py:4")
    assert journals.next_timer([FIRST, FAILED]) is None
    assert journals.next_timer([FIRST, FAILED, THIRD]) is None, "it waits for calls alone"
    assert journals.next_timer([]) is None


def failed_answer(name: str, seconds: float) -> Answer:
    return answer(name, seconds).model_copy(update={"state": JobState.DEAD})


def again(of: Call, job: int) -> Call:
    return of.model_copy(update={"job_id": UUID(int=job), "retry_of": of.job_id or UUID(int=99)})


def test_a_call_that_is_requested_again_waits_and_its_new_answer_takes_the_place_of_the_failure() -> None:
    begun = turn(1, suspension=Suspension(calls=(CHARGE, SHIP)))
    died = turn(2, [failed_answer("charge", 5), answer("ship", 6)], Suspension(calls=(again(CHARGE, 1),)))
    assert [journals.is_retry(one) for one in (begun, died)] == [False, True]
    (open_call,) = journals.open_calls([begun, died])
    assert (open_call.call_id, open_call.job_id) == ("charge", UUID(int=1))
    assert [one.job_id for one in journals.all_calls([begun, died])] == [None, None, UUID(int=1)]
    answered = turn(3, [answer("charge", 90, "paid"), answer(None, 91)])
    turns = [begun, died, answered]
    assert journals.open_calls(turns) == []
    assert journals.answers_by_call(turns)["charge"].result == "paid"
    given = journals.replayed_answers(turns)
    assert [[(one.call_id, one.at, one.result) for one in some] for some in given] == [
        [],
        [("charge", after(5), "paid"), ("ship", after(6), "")],
        [(None, after(91), "")],
    ]


def test_the_failures_of_several_retries_are_all_taken_back() -> None:
    begun = turn(1, suspension=Suspension(calls=(CHARGE,)))
    first = turn(2, [failed_answer("charge", 5)], Suspension(calls=(again(CHARGE, 1),)))
    second = turn(3, [failed_answer("charge", 70)], Suspension(calls=(again(CHARGE, 2),)))
    assert journals.current_calls([begun, first, second])["charge"].job_id == UUID(int=2)
    given = journals.replayed_answers([begun, first, second, turn(4, [failed_answer("charge", 80)])])
    assert [[(one.at, one.state) for one in some] for some in given] == [
        [],
        [(after(5), JobState.DEAD)],
        [],
        [],
    ]
    unanswered = turn(2, (), Suspension(calls=(again(CHARGE, 1),)))
    assert journals.replayed_answers([begun, unanswered, turn(3, [answer("charge", 8)])])[2][0].at == after(8)
