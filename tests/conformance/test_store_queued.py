"""Queued jobs by dispatch queue: what each queue should hold, and what the broker does not have."""

from dataclasses import replace
from datetime import datetime

import pytest
from tests.store_access import load_job
from tests.store_rows import after, queued_job, running_job, succeeded, waiting_job

from warrener_contracts.policy import JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_store import StateStore
from warrener_store.jobs.rows import JobRow, Save
from warrener_store.jobs.views import QueueHead


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
