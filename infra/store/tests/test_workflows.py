"""The journal of a workflow, made from its rows."""

from uuid import UUID

from tests.store_rows import after

from warrener_contracts.events import Answer, Call, CallKind, Journal, Suspension, Turn
from warrener_store.workflows.rows import TurnRow, journal_of

JOB = UUID(int=1)


def test_the_journal_has_each_turn_in_order_also_one_that_failed_and_markers_of_changed_code() -> None:
    calls = (Call(call_id=name, kind=CallKind(name), name=name) for name in ("marker", "job"))
    suspension = Suspension(calls=tuple(calls), wake_at=after(60))
    answers = (Answer(call_id="job", at=after(5), result="paid"),)
    first, failed = (
        TurnRow(job_id=JOB, attempt=1, suspension=suspension),
        TurnRow(job_id=JOB, attempt=2, answers=answers),
    )
    assert journal_of([first, failed]) == Journal(
        turns=(Turn(attempt=1, suspension=suspension), Turn(attempt=2, answers=answers))
    )
    assert journal_of([]) == Journal()
