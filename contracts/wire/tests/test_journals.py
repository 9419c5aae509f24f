"""What follows from the turns of a workflow: its calls, those that are open, answers and the next timer."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from warrener_contracts import journals
from warrener_contracts.events import Answer, Call, CallKind, Suspension, Turn

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


def test_a_timer_counts_until_the_next_turn_begins() -> None:
    assert journals.next_timer([FIRST]) == (after(60), "orders.py:4")
    assert journals.next_timer([FIRST, FAILED]) is None
    assert journals.next_timer([FIRST, FAILED, THIRD]) is None, "it waits for calls alone"
    assert journals.next_timer([]) is None
