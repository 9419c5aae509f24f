"""The stories of cancelled trees that every state store tells alike."""

from uuid import uuid4

from tests.store_rows import NOON, after, queued_job, running_job

from warrener_contracts.state_machine import JobState
from warrener_store import StateStore
from warrener_store.jobs.rows import JobRow
from warrener_store.jobs.views import CancelledTree, ChildJob


def _tree(row: JobRow) -> CancelledTree:
    return CancelledTree(job_id=row.job_id, reason="wrong file", cancelled_at=NOON)


async def test_a_mark_is_stored_once_with_its_first_reason(store: StateStore) -> None:
    one, other = queued_job(), queued_job()
    await store.insert_jobs([one, other])
    first = CancelledTree(job_id=one.job_id, reason="wrong \0 file", cancelled_at=NOON)
    later = CancelledTree(job_id=one.job_id, reason="again", cancelled_at=after(5))
    await store.mark_cancelled([first, later])
    await store.mark_cancelled([later])
    assert await store.cancelled_among([one.job_id, other.job_id, uuid4()]) == {one.job_id: first}


async def test_a_job_that_is_over_can_be_marked(store: StateStore) -> None:
    row = queued_job(state=JobState.SUCCEEDED, wake_at=None, finished_at=NOON)
    await store.insert_jobs([row])
    tree = CancelledTree(job_id=row.job_id, reason="wrong file", cancelled_at=NOON)
    await store.mark_cancelled([tree])
    assert await store.cancelled_among([row.job_id]) == {row.job_id: tree}


async def test_children_are_those_that_a_job_has_requested_over_or_not(store: StateStore) -> None:
    root, other = queued_job(), queued_job()
    runs = running_job(parent_id=root.job_id)
    done = queued_job(parent_id=root.job_id, state=JobState.SUCCEEDED, wake_at=None, finished_at=NOON)
    grandchild = queued_job(parent_id=runs.job_id)
    await store.insert_jobs([root, other, runs, done, grandchild])
    children = await store.mark_cancelled([_tree(root), _tree(other)])
    assert sorted(children, key=lambda child: child.over) == [
        ChildJob(job_id=runs.job_id, parent_id=root.job_id, over=False),
        ChildJob(job_id=done.job_id, parent_id=root.job_id, over=True),
    ]
    both = {child.job_id for child in await store.mark_cancelled([_tree(root), _tree(runs)])}
    assert both == {runs.job_id, done.job_id, grandchild.job_id}
