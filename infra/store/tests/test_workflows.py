"""The journal of a workflow, made from its rows."""

from dataclasses import replace
from random import Random
from uuid import UUID

from tests.store_rows import after

from warrener_contracts.events import Answer, Call, CallKind, Journal, StepRetry, Suspension, Turn
from warrener_contracts.journals import answers_by_call, next_timer, open_calls, open_retries
from warrener_store.mapping import SQLITE_CODEC
from warrener_store.workflows.rows import (
    StoredTurn,
    TurnRow,
    arguments_of,
    journal_json,
    journal_of,
    open_turns,
)
from warrener_store.workflows.store import TURNS

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


def stored(turns: list[TurnRow]) -> list[StoredTurn]:
    rows = [TURNS.to_row(turn, SQLITE_CODEC) for turn in turns]
    return [StoredTurn(attempt, answers, suspension) for _, attempt, answers, _, suspension, _ in rows]


def chance_turns(chance: Random) -> list[TurnRow]:
    """The turns of a workflow whose calls, answers and failures come by chance."""
    turns, waiting = list[TurnRow](), list[Call]()
    for attempt in range(1, chance.randint(2, 12)):
        at = after(attempt)
        ended = [waiting.pop(chance.randrange(len(waiting))) for _ in range(chance.randint(0, len(waiting)))]
        answers = [
            Answer(
                call_id=call.call_id,
                at=at,
                result=[None],
                signal_id="s" if call.kind is CallKind.SIGNAL else None,
            )
            for call in ended
        ]
        calls = [
            Call(
                call_id=f"{attempt}/{number}",
                kind=chance.choice([*CallKind]),
                name="n",
                job_id=UUID(int=number),
            )
            for number in range(chance.randint(0, 3))
        ]
        waiting += calls
        closed = waiting.pop().call_id if waiting and chance.random() < 0.2 else None
        retries = [StepRetry(call_id=waiting[0].call_id, tries=attempt, retry_at=at)] if waiting else []
        suspension = Suspension(
            calls=tuple(calls),
            closed=() if closed is None else (closed,),
            answers=tuple(answers[:1]) if chance.random() < 0.3 else (),
            retries=tuple(retries) if chance.random() < 0.3 else (),
            began_at=at if attempt == 1 else None,
            wake_at=at if chance.random() < 0.5 else None,
        )
        given = () if suspension.answers else tuple(answers)
        has_failed = chance.random() < 0.2
        turns.append(
            TurnRow(job_id=JOB, attempt=attempt, answers=given, suspension=None if has_failed else suspension)
        )
    return turns


def test_the_turns_that_the_next_one_depends_on_read_as_all_of_them() -> None:
    chance, left_out = Random(23), 0
    for _ in range(300):
        turns = chance_turns(chance)
        last = turns[-1]
        found = open_turns(JOB, stored(turns), since=last.attempt)
        left_out += len(turns) - len(found)
        assert found[-1].attempt == last.attempt
        assert open_calls(found) == open_calls(turns)
        assert open_retries(found) == open_retries(turns)
        assert next_timer(found) == next_timer(turns)
        assert [found[-1].answers, found[-1].suspension is None] == [last.answers, last.suspension is None]
        received, before = (
            {one.signal_id for one in answers_by_call(some).values()} - {None} for some in (found, turns)
        )
        assert received == before
        moments, all_moments = (
            [one.at for turn in some for one in (*turn.answers, *(turn.suspension or Suspension()).answers)]
            for some in (found, turns)
        )
        assert max(moments, default=None) == max(all_moments, default=None)
    assert left_out > 300


def with_last_failures(turns: list[TurnRow]) -> list[TurnRow]:
    """These turns without the failures of steps that later ones follow."""
    last = {
        retry.call_id: turn.attempt
        for turn in turns
        if turn.suspension is not None
        for retry in turn.suspension.retries
    }
    return [
        turn
        if turn.suspension is None
        else replace(
            turn,
            suspension=turn.suspension.model_copy(
                update={
                    "retries": tuple(
                        one for one in turn.suspension.retries if last[one.call_id] == turn.attempt
                    )
                }
            ),
        )
        for turn in turns
    ]


def test_a_step_that_has_failed_a_thousand_times_travels_with_its_last_failure() -> None:
    step = Call(call_id="step/fetch#1", kind=CallKind.STEP, name="fetch")
    turns = [
        TurnRow(
            job_id=JOB,
            attempt=attempt,
            answers=(Answer(at=after(attempt)),),
            suspension=Suspension(
                calls=(step,) if attempt == 1 else (),
                retries=(
                    StepRetry(call_id=step.call_id, tries=attempt, retry_at=after(attempt), error="x" * 200),
                ),
            ),
        )
        for attempt in range(1, 1001)
    ]
    text = journal_json(stored(turns))
    assert len(text) < 150_000
    assert [one.tries for one in open_retries(Journal.model_validate_json(text).turns).values()] == [1000]
    assert [turn.attempt for turn in open_turns(JOB, stored(turns), since=1000)] == [1, 1000]


def unsized(journal: str) -> str:
    """The journal without the size that a reader need not find out; it has none if it had to be read."""
    text, found, size = journal.removesuffix("}").partition(',"size":')
    if found:
        assert int(size) == len(text.partition('"turns":')[2].encode())
    return f"{text}}}" if found else journal


def test_a_journal_that_is_not_read_is_the_same_journal() -> None:
    chance = Random(24)
    for _ in range(100):
        turns = chance_turns(chance)
        sent = with_last_failures(turns)
        assert unsized(journal_json(stored(turns))) == journal_of(sent).model_dump_json(exclude_none=True)
        began = TurnRow(job_id=JOB, attempt=1, suspension=Suspension(continued={"order": None}))
        later = [began, *(replace(turn, attempt=turn.attempt + 1) for turn in turns)]
        sent = with_last_failures(later)
        assert unsized(journal_json(stored(later))) == journal_of(sent).model_dump_json(exclude_none=True)
        assert arguments_of(stored(later)) == arguments_of(later) == {"order": None}
        assert (arguments_of(stored(turns)), journal_of(later).generation) == (None, 1)


def test_a_journal_with_a_call_that_was_requested_again_is_read() -> None:
    call = Call(call_id="a", kind=CallKind.JOB, name="n", job_id=UUID(int=2))
    again = call.model_copy(update={"job_id": UUID(int=3), "retry_of": UUID(int=2)})
    failure, success = Answer(call_id="a", at=after(1)), Answer(call_id="a", at=after(2), result=7)
    turns = [
        TurnRow(job_id=JOB, attempt=1, suspension=Suspension(calls=(call,))),
        TurnRow(job_id=JOB, attempt=2, answers=(failure,), suspension=Suspension(calls=(again,))),
        TurnRow(job_id=JOB, attempt=3, answers=(success,)),
    ]
    assert open_turns(JOB, stored(turns), since=3) == turns
    assert journal_json(stored(turns)) == journal_of(turns).model_dump_json(exclude_none=True)
    assert "retry_of" not in journal_json(stored(turns))
