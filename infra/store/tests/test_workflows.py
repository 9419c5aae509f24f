"""What follows from the turns of a workflow: its journal, open calls, answers and the next timer."""

from collections.abc import Sequence
from uuid import UUID

from tests.store_rows import after

from warrener_contracts.events import Answer, Call, CallKind, Journal, Suspension, Turn
from warrener_store.workflows import rows

JOB = UUID(int=1)


def call(name: str, kind: CallKind = CallKind.JOB) -> Call:
    return Call(call_id=name, kind=kind, name=name)


def answer(name: str | None, seconds: float, result: str = "") -> Answer:
    return Answer(call_id=name, at=after(seconds), result=result)


def turn(attempt: int, answers: Sequence[Answer] = (), suspension: Suspension | None = None) -> rows.TurnRow:
    return rows.TurnRow(job_id=JOB, attempt=attempt, answers=tuple(answers), suspension=suspension)


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


def test_the_journal_has_each_turn_in_order_also_one_that_failed() -> None:
    assert rows.journal_of([FIRST, FAILED]) == Journal(
        turns=(Turn(attempt=1, suspension=FIRST.suspension), Turn(attempt=2, answers=FAILED.answers))
    )
    assert rows.journal_of([]) == Journal()


def test_a_call_is_open_until_it_has_an_answer_or_is_closed() -> None:
    assert rows.open_calls([]) == []
    assert rows.open_calls([FIRST]) == [CHARGE, PACKED]
    assert rows.open_calls([FIRST, FAILED]) == [PACKED]
    assert rows.open_calls([FIRST, FAILED, THIRD]) == [SHIP, LATE]
    assert rows.all_calls([FIRST, FAILED, THIRD]) == [CHARGE, LOOK, PACKED, SHIP, LATE]


def test_a_marker_of_changed_code_is_in_the_journal_and_is_no_call() -> None:
    marked = turn(1, suspension=Suspension(calls=(call("weigh first", CallKind.MARKER), CHARGE)))
    assert rows.all_calls([marked]) == rows.open_calls([marked]) == [CHARGE]
    (recorded,) = rows.journal_of([marked]).turns
    assert recorded.suspension == marked.suspension


def test_answers_stand_in_the_order_in_which_the_workflow_sees_them_and_the_first_counts() -> None:
    repeated = turn(4, [answer("charge", 9, "paid again"), answer("ship", 9, "gone")])
    found = rows.answers_by_call([FIRST, FAILED, THIRD, repeated])
    assert [(name, one.result) for name, one in found.items()] == [
        ("look", "seen"),
        ("charge", "paid"),
        ("ship", "gone"),
    ]


def test_a_timer_counts_until_the_next_turn_begins() -> None:
    assert rows.next_timer([FIRST]) == (after(60), "orders.py:4")
    assert rows.next_timer([FIRST, FAILED]) is None
    assert rows.next_timer([FIRST, FAILED, THIRD]) is None, "it waits for calls alone"
    assert rows.next_timer([]) is None
