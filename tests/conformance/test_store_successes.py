"""A success ends its job in every state store as the judge would have it, and only where the judge would."""

import asyncio
from uuid import uuid4

import pytest
from tests.store_access import load_job
from tests.store_rows import after, queued_job, running_job, succeeded

from warrener_contracts.state_machine import JobState
from warrener_store import StateStore
from warrener_store.jobs.rows import AttemptOutcome, JobRow
from warrener_store.jobs.views import Success

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
    assert [count.jobs for count in await store.count_jobs()] == [20]
    for n, ended in enumerate(results):
        for job_id in ended:
            assert (await load_job(store, job_id)).agent_id == f"a{n}"
