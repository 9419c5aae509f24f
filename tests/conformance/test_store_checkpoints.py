"""The stories of checkpoints that every state store tells alike."""

from typing import Any

import pytest
from tests.store_rows import NOON, queued_job

from warrener_store import StateStore
from warrener_store.jobs.rows import JobRow
from warrener_store.jobs.views import CheckpointRow


def saved(row: JobRow, number: int, state: Any = None) -> CheckpointRow:
    return CheckpointRow(job_id=row.job_id, attempt=1, number=number, state=state, saved_at=NOON)


@pytest.mark.parametrize("state", [None, 0, "row 5", {"row": 5, "seen": ["a", "\0"]}, [1.5, True]])
async def test_a_checkpoint_comes_back_as_it_went(store: StateStore, state: Any) -> None:
    row = queued_job()
    await store.insert_jobs([row])
    await store.keep_checkpoints([saved(row, 1, state)])
    assert await store.checkpoints_of([row.job_id]) == {row.job_id: saved(row, 1, state)}


async def test_the_greater_number_counts_whatever_comes_later(store: StateStore) -> None:
    one, other = queued_job(), queued_job()
    await store.insert_jobs([one, other])
    await store.keep_checkpoints(
        [saved(one, 2, "b"), saved(one, 3, "c"), saved(one, 1, "a"), saved(other, 1)]
    )
    await store.keep_checkpoints([saved(one, 2, "late"), saved(one, 3, "a repeat")])
    found = await store.checkpoints_of([one.job_id, other.job_id])
    assert found == {one.job_id: saved(one, 3, "c"), other.job_id: saved(other, 1)}
