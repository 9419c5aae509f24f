"""Jobs in flight, alike in every store: queued, running, and ended by a success."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest
from tests.store_access import load_job
from tests.store_rows import NOON, after, agent_row, queued_job, running_job, succeeded, waiting_job

from warrener_contracts.policy import JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_store import StateStore
from warrener_store.jobs.rows import AttemptOutcome, JobRow, Save
from warrener_store.jobs.rules import CANCEL_MARK
from warrener_store.jobs.views import MarkOwner, QueueHead, Success


def queued(seconds: float | None, queue: str = "default", **fields: object) -> JobRow:
    dispatched_at: datetime | None = None if seconds is None else after(seconds)
    return queued_job(queue=queue, dispatched_at=dispatched_at, **fields)


async def test_each_queue_is_named_with_its_oldest_and_whether_some_are_not_published(
    store: StateStore,
) -> None:
    assert await store.queue_heads() == []
    await store.insert_jobs(
        [
            queued(5),
            queued(3),
            queued(None),
            queued(7, "a\x00b"),
            queued(None, "unpublished"),
            running_job(queue="runs"),
            waiting_job(queue="waits"),
        ]
    )
    assert sorted(await store.queue_heads()) == sorted(
        [
            QueueHead("a\x00b", after(7), unpublished=False),
            QueueHead("default", after(3), unpublished=True),
            QueueHead("unpublished", None, unpublished=True),
        ]
    )


async def test_what_may_share_a_message_is_counted_together(store: StateStore) -> None:
    many = JobPolicy(dispatch_batch=16)
    await store.insert_jobs(
        [
            *(queued(n, policy=many) for n in range(5)),
            queued(9),
            queued(1, job_type="other"),
            queued(None),
            queued(1, "elsewhere"),
        ]
    )
    found = {
        (group.job_type, group.policy.dispatch_batch): (group.jobs, group.settled)
        for group in await store.queued_groups("default", after(2), 100)
    }
    assert found == {("flights.load", 16): (5, 3), ("flights.load", 1): (1, 0), ("other", 1): (1, 1)}
    assert sum(group.jobs for group in await store.queued_groups("default", after(2), 4)) == 4


async def test_the_first_dispatched_come_first(store: StateStore) -> None:
    rows = [queued(seconds) for seconds in (5, 3, 4, 20)]
    gone = queued(1)
    await store.insert_jobs([*rows, gone, queued(None), queued(2, "elsewhere")])
    await store.save_jobs([succeeded(gone, None)])
    found = await store.oldest_queued("default", after(10), 100)
    assert [job.dispatched_at for job in found] == [after(3), after(4), after(5)]
    assert found[:2] == await store.oldest_queued("default", after(10), 2)


async def test_the_unpublished_are_given_in_order_but_for_those_just_touched(store: StateStore) -> None:
    rows = [queued(None, updated_at=after(n)) for n in range(4)]
    await store.insert_jobs([*rows, queued(1), queued(None, "elsewhere")])
    found = await store.unpublished_jobs("default", after(2), 100)
    assert found == sorted(rows[:3], key=lambda row: row.job_id)
    assert await store.unpublished_jobs("default", after(2), 1) == found[:1]
    assert await store.unpublished_jobs("default", after(2), 100, after=found[0].job_id) == found[1:]
    assert await store.unpublished_jobs("default", after(2), 100, after=found[2].job_id) == []


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RETRYING])
async def test_a_dispatch_that_was_not_taken_is_unpublished(store: StateStore, state: JobState) -> None:
    due_at = after(5) if state is JobState.RETRYING else None
    row = queued(1, state=state, due_at=due_at)
    other, later, runs = queued(1), queued(1, attempt=2), running_job()
    await store.insert_jobs([row, other, later, runs])
    await store.mark_unpublished([(row.job_id, 1), (later.job_id, 1), (runs.job_id, runs.attempt)], after(9))
    await store.mark_unpublished([], after(9))
    want = replace(row, dispatched_at=None, updated_at=after(9), version=row.version + 1)
    assert await load_job(store, row.job_id) == want
    assert [await load_job(store, each.job_id) for each in (other, later, runs)] == [other, later, runs]
    assert await store.save_jobs([Save(replace(row, version=row.version + 1))]) == set(), "it was changed"


async def test_each_owner_is_named_once_with_its_last_heartbeat(store: StateStore) -> None:
    await store.put_agents([agent_row("a1", last_seen_at=after(5)), agent_row("a3", last_seen_at=after(7))])
    rows = [running_job(agent_id=name) for name in ("a1", "a1", "a2%", "a1", "a2%")]
    await store.insert_jobs([*rows, queued_job(agent_id="a3")])
    assert await store.running_owners() == {"a1": after(5), "a2%": None}


async def test_no_two_callers_get_the_same_loss_and_claims_end_beside_saves(store: StateStore) -> None:
    rows = [running_job() for _ in range(60)]
    await store.insert_jobs(rows)
    ids = [row.job_id for row in rows]
    claims = [store.claim_lost(ids[::step], after(40), after(50)) for step in (1, -1) * 4]
    counts = Counter(row.job_id for claimed in await asyncio.gather(*claims) for row in claimed)
    assert set(counts.values()) <= {1}
    rows = list((await store.jobs_by_id(ids)).values())
    claims = [store.claim_lost(ids[::step], after(60), after(70)) for step in (1, -1) * 5]
    saves = [store.save_jobs([succeeded(row) for row in rows[n : n + 30]]) for n in (0, 15, 30)]
    await asyncio.gather(*claims, *saves)
    assert sum(count.jobs for count in await store.count_jobs()) == len(rows)


NOW = after(60)


def success_of(row: JobRow, **fields: object) -> Success:
    plain = Success(row.job_id, row.attempt, "a1", {"rows": 3}, after(10), after(50))
    return plain._replace(**fields)  # type: ignore[arg-type]  # the fields are named by the test


@pytest.mark.parametrize("alike", [True, False])
async def test_each_of_a_batch_ends_with_its_own_result(store: StateStore, *, alike: bool) -> None:
    """What all of a batch have alike is handed over once, and what none of them has not at all."""
    rows = [
        running_job(watchers=("reply-1",), parent_id=uuid4(), traceparent="00-1-2-01", deadline_at=after(-1)),
        queued_job(job_type="a\x00b", tracestate="v=1"),
        queued_job(state=JobState.RETRYING, due_at=after(5), attempt=1 if alike else 2, traceparent="00-3"),
    ]
    results = [None] * 3 if alike else [{"n": 1.5}, None, "\ud800"]
    await store.insert_jobs(rows)
    reported = [
        success_of(row, result=result, agent_id="a1" if alike else f"a{place}")
        for place, (row, result) in enumerate(zip(rows, results, strict=True))
    ]
    ended = await store.succeed_jobs(reported, NOW)
    for row, success in zip(rows, reported, strict=True):
        over, job = await load_job(store, row.job_id), ended[row.job_id]
        want = succeeded(row, success.result).row
        assert (over.state, over.version, over.result) == (want.state, want.version, want.result)
        assert (over.agent_id, over.finished_at, over.updated_at) == (success.agent_id, NOW, NOW)
        assert (over.wake_at, over.due_at, over.lease_until) == (None, None, None)
        traced = row.traceparent is not None
        waited_since = row.updated_at if traced and row.state is not JobState.RUNNING else None
        of_wait = {"waited_since": waited_since, "was_due_at": row.due_at if traced else None}
        assert job._asdict() == of_wait | {
            name: getattr(over, name) for name in job._fields if name not in of_wait
        }
        (attempt,) = await store.attempts_of([row.job_id])
        assert (attempt.outcome, attempt.attempt, attempt.agent_id) == (
            AttemptOutcome.SUCCEEDED,
            success.attempt,
            success.agent_id,
        )
        assert (attempt.started_at, attempt.finished_at) == (after(10), after(50))
    assert await store.claim_deadlines(after(100), after(200), 10) == []
    counts = {(count.job_type, count.state): count.jobs for count in await store.count_jobs()}
    assert counts == {("flights.load", JobState.SUCCEEDED): 2, ("a\x00b", JobState.SUCCEEDED): 1}


async def test_of_several_who_receive_it_at_once_one_ends_the_job(store: StateStore) -> None:
    rows = [queued_job() for _ in range(20)]
    await store.insert_jobs(rows)
    batches = [[success_of(row, agent_id=f"a{n}") for row in rows] for n in range(8)]
    results = await asyncio.gather(*(store.succeed_jobs(batch, NOW) for batch in batches))
    assert sorted(job_id for ended in results for job_id in ended) == sorted(row.job_id for row in rows)
    (count,) = await store.count_jobs()
    assert (count.jobs, type(count.jobs)) == (20, int), "no Decimal, which PostgreSQL makes of a sum"
    for n, ended in enumerate(results):
        for job_id in ended:
            assert (await load_job(store, job_id)).agent_id == f"a{n}"


async def test_the_marks_of_cancels_are_counted_by_user_or_by_source(store: StateStore) -> None:
    marks: list[tuple[str, dict[str, Any]]] = [
        ("a\x00b", {}),
        ("till", {}),
        ("x", {"user": "ann\ud800"}),
        ("till", {"user": "ann\ud800"}),
    ]
    over: dict[str, Any] = {"job_type": CANCEL_MARK, "state": JobState.CANCELLED, "finished_at": NOON}
    rows = [
        waiting_job(source=source, arguments=arguments, accepted_at=after(n), wake_at=None, **over)
        for n, (source, arguments) in enumerate(marks)
    ]
    await store.insert_jobs([*rows, waiting_job(source="till")])
    ann = MarkOwner("ann\ud800", None)
    assert await store.count_cancel_marks(9) == {
        MarkOwner(None, "a\x00b"): 1,
        MarkOwner(None, "till"): 1,
        ann: 2,
    }
    assert await store.count_cancel_marks(2) == {ann: 2}, "the newest alone"
