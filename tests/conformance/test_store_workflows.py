"""The journals of workflows, alike in every store: turns, signals, and suspended jobs that are woken."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.store_access import load_job, opened_store
from tests.store_rows import after, changed, queued_job, running_job, succeeded, waiting_job

from warrener_contracts.events import Answer, Call, CallKind, ErrorInfo, ErrorKind, Suspension, UndoRequest
from warrener_contracts.identity import child_source, undo_source
from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_store import Store
from warrener_store.jobs import views
from warrener_store.jobs.rows import JobFilter, JobRow
from warrener_store.jobs.views import END_REASON, CancelledTree, Success
from warrener_store.retention.rows import JobsBefore
from warrener_store.workflows.rows import (
    MemberOf,
    SignalRow,
    TurnRow,
    WaitCount,
    WaitKind,
    WaitRow,
    open_turns,
)

ODD = {"text": "\x00 \x1a \ud800 é 🐇", "numbers": [1, 2.5, None, True]}
CALL = Call(
    call_id="job/cards.charge#1",
    kind=CallKind.JOB,
    name="cards.charge",
    digest="0f",
    line="orders.py:41",
    job_id=uuid4(),
    undo=UndoRequest(job_type="cards.refund", arguments={"order": 7}),
    detached=True,
)
FAILURE = ErrorInfo(kind=ErrorKind.ERROR, type="Rejected", message="no such card", retryable=False)
SUSPENSION = Suspension(
    calls=(CALL,),
    closed=("signal/packed#1",),
    answers=(Answer(call_id="step/look#1", at=after(2), result=ODD),),
    began_at=after(1),
    wake_at=after(60),
    timer_line="orders.py:44",
)


def suspended_job(**fields: Any) -> JobRow:
    """A workflow that was suspended once and looks at its calls in ten minutes."""
    return queued_job(**({"state": JobState.SUSPENDED, "suspensions": 1, "wake_at": after(600)} | fields))


async def stored(store: Store, row: JobRow) -> JobRow:
    await store.insert_jobs([row])
    return row


def signal(job_id: UUID, number: int, **fields: Any) -> SignalRow:
    plain: dict[str, Any] = {"name": "packed", "data": {"box": number}, "received_at": after(number)}
    return SignalRow(job_id=job_id, signal_id=f"s{number}", **(plain | fields))


async def test_child_jobs_are_read_in_pages_and_those_of_maps_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MAX_CHILDREN", 3)
    job, text = await stored(store, suspended_job()), "2!/map/a%.b_/0/map#1/3"
    theirs = sorted(
        (queued_job(parent_id=job.job_id, member_of=text) for _ in range(7)), key=lambda row: row.job_id
    )
    undo = queued_job(parent_id=job.job_id, source=undo_source(job.job_id))
    detached = queued_job(parent_id=job.job_id, source=child_source(job.job_id, detached=True))
    await store.insert_jobs([*theirs, undo, detached])
    ids = [row.job_id for row in theirs]
    first = await store.children_of([job.job_id])
    pages = [one.job_id for one in first]
    while found := await store.children_of([job.job_id], pages[-1]):
        assert len(found) <= 3
        pages += [one.job_id for one in found]
    assert pages == sorted([*ids, detached.job_id])
    over, dead = theirs[0], theirs[1]
    ended = changed(dead, state=JobState.DEAD, finished_at=after(9), wake_at=None)
    done = changed(over, state=JobState.SUCCEEDED, finished_at=after(9), wake_at=None)
    assert len(await store.save_jobs([ended, done])) == 2
    assert [one.job_id for one in await store.open_children(job.job_id, limit=3)] == ids[2:5]
    assert [one.job_id for one in await store.open_children(job.job_id, ids[4])] == ids[5:]
    assert await store.count_failed(job.job_id, "map/a%.b_/0/map#1", 5) == 1
    assert await store.count_failed(job.job_id, "map/a%.b_/0/map#1", 0) == 0
    assert await store.count_failed(job.job_id, "map/a%.b_/0/map#2", 5) == 0
    assert MemberOf.read(text) == MemberOf("map/a%.b_/0/map#1/3", 2, stops=True)


async def test_a_journal_comes_back_as_it_went_whatever_it_holds(store: Store) -> None:
    job, other = await stored(store, suspended_job()), await stored(store, suspended_job())
    first = TurnRow(
        job_id=job.job_id, attempt=1, began_at=after(1), suspension=SUSPENSION, suspended_at=after(3)
    )
    answers = (
        Answer(call_id=CALL.call_id, at=after(9), state=JobState.DEAD, error=FAILURE),
        Answer(call_id="signal/packed#2", at=after(9), result=[ODD], signal_id="s1"),
        Answer(at=after(9)),
    )
    second = TurnRow(job_id=job.job_id, attempt=2, answers=answers, began_at=after(9))
    alone = TurnRow(job_id=other.job_id, attempt=1, suspension=Suspension(), suspended_at=after(1))
    await store.keep_answers([second])
    await store.keep_suspensions([alone, first])
    assert await store.turns_of([other.job_id, job.job_id, uuid4()]) == {
        job.job_id: [first, second],
        other.job_id: [alone],
    }
    assert await store.turns_of([]) == {}
    unread = await store.stored_turns([other.job_id, job.job_id, uuid4()])
    assert [one.attempt for one in unread[job.job_id]] == [1, 2]
    assert open_turns(job.job_id, unread[job.job_id], since=1) == [
        replace(first, began_at=None, suspension=SUSPENSION.model_copy(update={"calls": ()})),
        replace(second, began_at=None),
    ]
    assert await store.stored_turns([]) == {}


async def test_of_two_writers_of_a_turn_the_first_counts(store_url: str) -> None:
    async with opened_store(store_url) as one, opened_store(store_url) as other:
        jobs = [await stored(one, suspended_job()) for _ in range(20)]

        def turns(writer: str) -> list[TurnRow]:
            answers = (Answer(call_id="step/x#1", at=after(5), result=writer),)
            return [TurnRow(job_id=job.job_id, attempt=2, answers=answers, began_at=after(5)) for job in jobs]

        await asyncio.gather(one.keep_answers(turns("one")), other.keep_answers(turns("other")[::-1]))
        held = await one.turns_of([job.job_id for job in jobs])
        await asyncio.gather(other.keep_answers(turns("late")), one.keep_answers(turns("later")))
        assert await other.turns_of([job.job_id for job in jobs]) == held
    assert all(turn in turns("one") + turns("other") for (turn,) in held.values())


async def test_a_turn_is_suspended_once_and_keeps_the_answers_with_which_it_began(store: Store) -> None:
    job = await stored(store, suspended_job())
    begun = TurnRow(job_id=job.job_id, attempt=2, answers=(Answer(at=after(5)),), began_at=after(5))
    await store.keep_answers([begun])
    end = TurnRow(job_id=job.job_id, attempt=2, suspension=SUSPENSION, suspended_at=after(6))
    repeat = replace(end, suspension=Suspension(), suspended_at=after(7))
    await store.keep_suspensions([end, repeat])
    await store.keep_suspensions([repeat])
    await store.keep_answers([replace(begun, answers=())])
    whole = replace(begun, suspension=SUSPENSION, suspended_at=after(6))
    assert await store.turns_of([job.job_id]) == {job.job_id: [whole]}


async def test_a_turn_of_an_unknown_job_is_left_out_and_those_beside_it_are_stored(store: Store) -> None:
    job = await stored(store, suspended_job())
    known, unknown = (TurnRow(job_id=job_id, attempt=1) for job_id in (job.job_id, uuid4()))
    await store.keep_answers([unknown, known])
    await store.keep_suspensions([replace(unknown, suspension=SUSPENSION)])
    assert await store.turns_of([known.job_id, unknown.job_id]) == {job.job_id: [known]}


async def test_signals_come_in_order_once_each_and_may_come_before_their_job(store: Store) -> None:
    early, job = uuid4(), await stored(store, suspended_job())
    first, second, third = (signal(job.job_id, number) for number in (1, 2, 3))
    odd = signal(early, 1, name="a\x00b", data=ODD)
    other = signal(early, 2, data=None)
    await store.keep_signals([third, first, odd])
    assert await store.keep_signals([second, replace(first, data="again"), other]) == []
    names = {job.job_id: ["packed"], early: ["a\x00b", "packed"], uuid4(): ["packed"]}
    assert await store.signals_of(names) == {job.job_id: [first, second, third], early: [odd, other]}
    assert await store.signals_of({early: ["packed", "gone"], job.job_id: []}) == {early: [other]}
    assert await store.signals_of({}) == {}
    assert await store.keep_signals([]) == []
    sent = [(one.signal_id, one.name, one.received_at) for one in (first, second, third)]
    assert await store.sent_signals(job.job_id) == sent


async def test_only_as_many_signals_are_read_as_a_job_may_receive_next(store: Store) -> None:
    one, other = uuid4(), uuid4()
    rows = [signal(job_id, number) for job_id in (one, other) for number in range(5)]
    late = signal(one, 9, name="paid")
    await store.keep_signals([late, *rows[::-1]])
    received = [(one, "s0"), (one, "s2"), (other, "s4")]
    found = await store.signals_of({one: ["packed", "paid"], other: ["packed"]}, 2, received=received)
    assert found == {one: [rows[1], rows[3], late], other: rows[5:7]}, "s0 of the other is another signal"


async def test_a_job_has_a_limit_of_signals_and_what_is_beyond_is_refused(store: Store) -> None:
    job, calm = uuid4(), uuid4()
    first, more = (
        [signal(job, number) for number in range(4)],
        [signal(job, number) for number in range(4, 8)],
    )
    assert await store.keep_signals(first, limit=6) == []
    assert await store.keep_signals([*first, *more, signal(calm, 1)], limit=6) == more[2:]
    assert await store.keep_signals([*first, *more], limit=6) == more[2:], "a repeat is none more"
    found = await store.signals_of({job: ["packed"], calm: ["packed"]})
    assert found == {job: [*first, *more[:2]], calm: [signal(calm, 1)]}


async def test_a_wake_makes_suspended_jobs_due_and_their_versions_grow_also_of_one_that_is_due(
    store: Store,
) -> None:
    later, due = await stored(store, suspended_job()), await stored(store, suspended_job(wake_at=after(4)))
    running, waiting = (
        await stored(store, running_job(wake_at=after(600))),
        await stored(store, waiting_job()),
    )
    rows = [later, due, running, waiting]
    woken = await store.wake_suspended([*(row.job_id for row in rows), uuid4()], after(5))
    assert woken == {later.job_id, due.job_id}
    assert await load_job(store, later.job_id) == replace(later, version=2, wake_at=after(5))
    assert await load_job(store, due.job_id) == replace(due, version=2), "it stays due"
    assert [await load_job(store, row.job_id) for row in rows[2:]] == rows[2:]
    assert await store.wake_suspended([], after(6)) == set()


async def test_a_turn_that_was_decided_before_a_wake_is_not_saved_though_its_job_was_due(
    store: Store,
) -> None:
    job = await stored(store, suspended_job(wake_at=after(5)))
    await store.wake_suspended([job.job_id], after(6))
    assert await store.save_jobs([changed(job, wake_at=after(900))]) == set()
    [claimed] = await store.claim_due([JobState.SUSPENDED], after(6), after(16), 10)
    assert claimed.job_id == job.job_id


async def test_who_claims_what_was_woken_sees_it_and_a_turn_decided_before_is_not_saved(store: Store) -> None:
    job = await stored(store, suspended_job(wake_at=after(5)))
    [claimed] = await store.claim_due([JobState.SUSPENDED], after(5), after(15), 10)
    assert claimed == replace(job, version=2, wake_at=after(15))
    assert await store.claim_due([JobState.SUSPENDED], after(6), after(16), 10) == []
    assert await store.wake_suspended([job.job_id], after(6)) == {job.job_id}
    again = changed(claimed, state=JobState.QUEUED, attempt=2)
    assert await store.save_jobs([again]) == set(), "a child ended meanwhile"
    assert await store.claim_due([JobState.RETRYING], after(6), after(16), 10) == []
    [claimed] = await store.claim_due([JobState.SUSPENDED], after(6), after(16), 10)
    assert await store.save_jobs([changed(claimed, state=JobState.QUEUED, attempt=2)]) == {job.job_id}


async def test_overlapping_wakes_wait_for_each_other_without_a_deadlock(store_url: str) -> None:
    async with opened_store(store_url) as one, opened_store(store_url) as other:
        ids = [(await stored(one, suspended_job())).job_id for _ in range(50)]
        woken = await asyncio.gather(
            one.wake_suspended(ids, after(5)), other.wake_suspended(ids[::-1], after(5))
        )
        assert [*woken] == [set(ids), set(ids)]
        rows = (await one.jobs_by_id(ids)).values()
        assert {(row.version, row.wake_at) for row in rows} == {(3, after(5))}


async def test_how_a_job_is_suspended_and_how_it_ends_comes_back_and_is_counted(store: Store) -> None:
    job = await stored(store, running_job())
    save = changed(job, state=JobState.SUSPENDED, suspensions=1, wake_at=after(5))
    await store.save_jobs([save])
    assert await load_job(store, job.job_id) == save.row
    assert [(one.state, one.jobs) for one in await store.count_jobs()] == [(JobState.SUSPENDED, 1)]
    ending = changed(save.row, ending=JobState.EXPIRED, ending_reason="its deadline\x00 has passed")
    await store.save_jobs([ending])
    assert await load_job(store, job.job_id) == ending.row
    assert await store.list_jobs(JobFilter(states=(JobState.SUSPENDED,))) == [ending.row]


async def test_a_late_success_of_a_suspended_job_is_judged(store: Store) -> None:
    """Its children may run."""
    job = await stored(store, suspended_job())
    late = Success(job.job_id, 1, "a1", "done", after(1), after(2))
    assert await store.succeed_jobs([late], after(3)) == {}
    assert await load_job(store, job.job_id) == job


async def test_a_cancelled_tree_spares_the_jobs_that_undo(store: Store) -> None:
    job = await stored(store, suspended_job())
    child = await stored(store, queued_job(parent_id=job.job_id))
    await store.insert_jobs([queued_job(parent_id=job.job_id, source=undo_source(job.job_id))])
    tree = CancelledTree(job_id=job.job_id, reason="by ann", cancelled_at=after(1))
    assert [one.job_id for one in await store.mark_cancelled([tree])] == [child.job_id]


async def test_the_mark_of_an_end_knows_detached_children_and_gives_way_to_a_cancelled_tree(
    store: Store,
) -> None:
    job = await stored(store, suspended_job())
    for detached in (False, True):
        source = child_source(job.job_id, detached=detached)
        await store.insert_jobs([queued_job(parent_id=job.job_id, source=source)])
    end = CancelledTree(job_id=job.job_id, reason=f"{END_REASON}x ends: too late", cancelled_at=after(1))
    tree = CancelledTree(job_id=job.job_id, reason="with the tree of x: by ann", cancelled_at=after(2))
    assert sorted(one.detached for one in await store.mark_cancelled([end])) == [False, True]
    assert await store.cancelled_among([job.job_id]) == {job.job_id: end}
    for mark in (tree, end, replace(tree, cancelled_at=after(3))):
        await store.mark_cancelled([mark])
        assert await store.cancelled_among([job.job_id]) == {job.job_id: tree}
    assert (end.is_of_end, tree.is_of_end) == (True, False)


async def test_the_deadline_of_a_job_that_begins_to_end_is_no_longer_claimed(store: Store) -> None:
    jobs = [await stored(store, suspended_job(deadline_at=after(5))) for _ in range(3)]
    first, second = (changed(job, ending=JobState.DEAD, ending_reason="no card") for job in jobs[:2])
    await store.save_jobs([first, changed(jobs[2], wake_at=after(7))])
    claimed = await store.claim_deadlines(after(6), after(16), 10)
    assert {row.job_id for row in claimed} == {jobs[1].job_id, jobs[2].job_id}
    await store.save_jobs([replace(second, row=replace(second.row, version=3))])
    assert [row.job_id for row in await store.claim_deadlines(after(20), after(30), 10)] == [jobs[2].job_id]


async def test_turns_go_with_their_job_and_signals_by_age_once_it_is_gone(store: Store) -> None:
    job, live = await stored(store, running_job()), await stored(store, suspended_job())
    await store.save_jobs([succeeded(job)])
    await store.keep_suspensions([TurnRow(job_id=job.job_id, attempt=1, suspension=SUSPENSION)])
    unknown = uuid4()
    rows = [signal(job_id, number) for job_id in (job.job_id, live.job_id, unknown) for number in (1, 2, 200)]
    await store.keep_signals(rows)
    assert await store.drop_signals(after(100), 10) == 2, "those of no job"
    old = JobsBefore(job.job_type, JobState.SUCCEEDED, after(1000), after(1000))
    assert await store.delete_jobs(old, [job.job_id]) == 1
    assert await store.turns_of([job.job_id]) == {}
    assert [await store.drop_signals(after(100), 1) for _ in range(3)] == [1, 1, 0]
    left = await store.signals_of({key: ["packed"] for key in (job.job_id, live.job_id, unknown)})
    assert {job_id: len(signals) for job_id, signals in left.items()} == {
        job.job_id: 1,
        live.job_id: 3,
        unknown: 1,
    }


async def test_the_last_turn_is_read_alone_and_a_journal_is_measured_without_reading_it(store: Store) -> None:
    job, other = await stored(store, suspended_job()), await stored(store, suspended_job())
    first = TurnRow(job_id=job.job_id, attempt=1, suspension=SUSPENSION)
    await store.keep_suspensions([first])
    before = await store.journal_sizes([job.job_id, other.job_id])
    await store.keep_answers([TurnRow(job_id=job.job_id, attempt=3)])
    ids = [job.job_id, other.job_id, uuid4()]
    assert {each: turn.attempt for each, turn in (await store.last_turns(ids)).items()} == {job.job_id: 3}
    assert await store.journal_sizes(ids) == {job.job_id: before[job.job_id] + 2}
    assert before[job.job_id] > 10
    assert (await store.last_turns([]), await store.journal_sizes([])) == ({}, {})


async def test_a_suspension_that_came_after_an_end_without_success_is_found(store: Store) -> None:
    def ended(state: JobState, suspensions: int) -> JobRow:
        return suspended_job(
            state=state, suspensions=suspensions, attempt=2, wake_at=None, finished_at=after(9)
        )

    late, timely, done = ended(JobState.CANCELLED, 0), ended(JobState.DEAD, 1), ended(JobState.SUCCEEDED, 0)
    rows = [late, timely, done, suspended_job(suspensions=0), ended(JobState.EXPIRED, 0)]
    for row in rows:
        await stored(store, row)
    await store.keep_suspensions(
        [TurnRow(job_id=row.job_id, attempt=1, suspension=SUSPENSION) for row in rows[:4]]
    )
    await store.keep_answers([TurnRow(job_id=row.job_id, attempt=2) for row in rows])
    assert await store.late_turns([*(row.job_id for row in rows), uuid4()]) == {late.job_id}
    assert await store.late_turns([]) == set()


async def test_of_an_ended_child_a_large_result_is_not_read(store: Store) -> None:
    runs = [running_job(parent_id=uuid4()) for _ in range(4)]
    small, large, dead, live = runs
    await store.insert_jobs(runs)
    ends = [
        succeeded(small, result=ODD),
        succeeded(large, result="é" * 50),
        changed(
            dead,
            state=JobState.DEAD,
            wake_at=None,
            finished_at=after(61),
            error=FAILURE,
            ending_reason="by\x00ann",
        ),
    ]
    await store.save_jobs(ends)
    ids = [*(row.job_id for row in runs), uuid4()]
    found = await store.child_ends(ids, 101, 1_000)
    assert set(found) == {small.job_id, large.job_id, dead.job_id}
    end = found[small.job_id]
    assert (end.state, end.attempt, end.result) == (JobState.SUCCEEDED, small.attempt, ODD)
    assert end.finished_at == ends[0].row.finished_at
    assert (found[large.job_id].result, found[large.job_id].result_size) == (None, 102)
    end = found[dead.job_id]
    assert (end.error, end.ending_reason, end.cancel_reason) == (FAILURE, "by\x00ann", None)
    assert (end.result, end.result_size) == (None, 0)
    assert (await store.child_ends(ids, 102, 1_000))[large.job_id].result == "é" * 50
    assert await store.child_ends([], 1, 1) == {}
    same = [running_job(parent_id=small.parent_id) for _ in range(3)]
    await store.insert_jobs(same)
    await store.save_jobs([succeeded(row, result="x" * 50) for row in same])
    assert len(await store.child_ends([row.job_id for row in same], 100, 51)) == 1
    assert len(await store.child_ends([row.job_id for row in same], 100, 52)) == 2
    assert len(await store.child_ends([row.job_id for row in same], 10, 0)) == 3, "large results are not read"

    await store.save_jobs([changed(live, cancel_reason="by ann")])
    status = await store.child_status(ids)
    assert {job_id: one[1:] for job_id, one in status.items()} == {
        **{end.row.job_id: (end.row.state, 1, end.row.finished_at, False) for end in ends},
        live.job_id: (JobState.RUNNING, 1, None, True),
    }
    assert await store.child_status([]) == {}


@pytest.mark.parametrize("state", sorted(TERMINAL))
async def test_a_child_stays_while_its_workflow_waits_for_its_calls(store: Store, state: JobState) -> None:
    job = await stored(store, suspended_job())
    child = running_job(parent_id=job.job_id)
    await store.insert_jobs([child])
    await store.save_jobs([changed(child, state=state, wake_at=None, finished_at=after(60))])
    old = JobsBefore(child.job_type, state, after(1000), after(1000))
    assert await store.delete_jobs(old, [child.job_id]) == 0
    await store.save_jobs([changed(job, state=JobState.DEAD, wake_at=None, finished_at=after(60))])
    assert await store.delete_jobs(old, [child.job_id]) == 1


async def test_another_generation_begins_with_an_empty_journal_and_the_signals_that_are_left(
    store: Store,
) -> None:
    job = await stored(store, suspended_job())
    rows = [signal(job.job_id, number) for number in (1, 2, 3)]
    await store.keep_signals(rows[:2])
    received = (Answer(call_id="signal/packed#1", at=after(5), result=1, signal_id="s1"),)
    left = Answer(call_id="signal/packed#2", at=after(5), result=2, signal_id="s2")
    turns = [
        TurnRow(job_id=job.job_id, attempt=1, suspension=SUSPENSION),
        TurnRow(
            job_id=job.job_id,
            attempt=2,
            answers=(*received, left),
            suspension=Suspension(continued={"order": None}, closed=("signal/packed#2",)),
        ),
    ]
    await store.keep_suspensions(turns)
    assert await store.turns_of([job.job_id]) == {job.job_id: turns}
    sizes = await store.journal_sizes([job.job_id])
    await store.save_jobs([changed(job, generation=2)])
    for _ in range(2):  # the call before has died and left the rest
        assert await store.turns_of([job.job_id]) == {job.job_id: turns[1:]}
        await store.end_generation(job.job_id, 2, after(-1))
        turns[1] = replace(turns[1], answers=(), suspension=Suspension(continued={"order": None}))
    assert (await store.journal_sizes([job.job_id]))[job.job_id] < sizes[job.job_id]
    assert [one.signal_id for one in await store.sent_signals(job.job_id)] == ["s2"]
    assert await store.keep_signals(rows, limit=2) == [], "received ones do not count, and are known"
    assert await store.signals_of({job.job_id: ["packed"]}) == {job.job_id: rows[1:]}
    await store.end_generation(job.job_id, 3, after(100))
    await store.keep_signals(rows)
    remaining = await store.signals_of({job.job_id: ["packed"]})
    assert remaining == {job.job_id: rows}, "it was forgotten, at last"
    ended = changed(job, generation=2, state=JobState.DEAD, wake_at=None, finished_at=after(9))
    await store.save_jobs([replace(ended, row=replace(ended.row, version=3))])
    assert await store.late_turns([job.job_id]) == set()


async def test_receipts_of_generations_are_bounded_however_fast_their_signals_come(store: Store) -> None:
    job = await stored(store, suspended_job())
    for generation in (1, 2, 3):
        rows = [signal(job.job_id, number) for number in range(generation * 600, generation * 600 + 600)]
        assert await store.keep_signals(rows) == [], "receipts do not count"
        given = tuple(Answer(call_id=each.signal_id, at=after(5), signal_id=each.signal_id) for each in rows)
        end = Suspension(continued={})
        turn = TurnRow(job_id=job.job_id, attempt=generation, answers=given, suspension=end)
        await store.keep_suspensions([turn])
        await store.end_generation(job.job_id, generation, after(-1))
    first, last = (signal(job.job_id, number) for number in (600, 2399))
    assert await store.keep_signals([first, last]) == []
    found = [one.signal_id for one in await store.sent_signals(job.job_id)]
    assert found == [first.signal_id], "of the last thousand a repeat is known, of those before it is not"


async def test_children_of_an_ended_generation_do_not_stay_with_their_workflow(store: Store) -> None:
    job = await stored(store, suspended_job())
    earlier, later = running_job(parent_id=job.job_id), running_job(parent_id=job.job_id)
    await store.insert_jobs([earlier, later])
    await store.save_jobs(
        [
            changed(child, state=JobState.SUCCEEDED, wake_at=None, finished_at=after(at))
            for child, at in ((earlier, 60), (later, 90))
        ]
    )
    end = TurnRow(job_id=job.job_id, attempt=1, suspension=Suspension(continued={}), suspended_at=after(70))
    await store.keep_suspensions([end])
    old = JobsBefore(earlier.job_type, JobState.SUCCEEDED, after(1000), after(1000))
    assert await store.delete_jobs(old, [earlier.job_id, later.job_id]) == 0
    await store.save_jobs([changed(job, generation=1)])
    assert await store.delete_jobs(old, [earlier.job_id, later.job_id]) == 1
    assert (await store.jobs_by_id([earlier.job_id, later.job_id])).keys() == {later.job_id}


async def test_waits_are_counted_by_kind_up_to_a_bound_and_the_oldest_of_a_suspended_job_is_named(
    store: Store,
) -> None:
    jobs = [await stored(store, suspended_job()) for _ in range(4)]
    gone = await stored(store, running_job())

    def wait(job: JobRow, kind: WaitKind, seconds: float) -> WaitRow:
        return WaitRow(job_id=job.job_id, kind=kind, since=after(seconds))

    await store.keep_waits([wait(job, WaitKind.CHILD, number) for number, job in enumerate(jobs)])
    await store.keep_waits([wait(jobs[1], WaitKind.HELD, 9), wait(gone, WaitKind.CHILD, -9)])
    counts = await store.count_waits(100)
    assert counts[WaitKind.CHILD] == WaitCount(3, after(0))
    assert counts[WaitKind.HELD] == WaitCount(1, after(9))
    assert counts[WaitKind.SIGNAL] == counts[WaitKind.END] == WaitCount(0, None)
    await store.keep_waits([wait(jobs[0], WaitKind.CHILD, 20)])
    assert (await store.count_waits(2))[WaitKind.CHILD] == WaitCount(2, after(2))
    ended = changed(jobs[2], state=JobState.SUCCEEDED, wake_at=None, finished_at=after(30))
    await store.save_jobs([ended])
    assert (await store.count_waits(100))[WaitKind.CHILD].oldest == after(3), (
        "it is over, and not forgotten yet"
    )
    await store.drop_waits([job.job_id for job in jobs])
    await store.drop_waits([])
    assert {one.jobs for one in (await store.count_waits(100)).values()} == {0}
