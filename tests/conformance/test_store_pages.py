"""Lists of jobs: the last accepted first, page by page, whatever arrives meanwhile."""

import random
from uuid import UUID, uuid4

import pytest
from tests.store_rows import NOON, after, queued_job

from warrener_contracts.identity import child_job_id
from warrener_contracts.state_machine import JobState
from warrener_store import StateStore, UnknownJob
from warrener_store.jobs.rows import JobFilter, JobRow


def ids_of_both_kinds(count: int) -> list[UUID]:
    """As requests (in the order of time) and child jobs (in none) have them, mixed."""
    start = int(NOON.timestamp() * 1000)
    by_time = (UUID(int=start + n << 80 | 7 << 76 | 2 << 62 | n) for n in range(count))
    parent = uuid4()
    return [child_job_id(parent, str(n)) if n % 3 == 1 else job_id for n, job_id in enumerate(by_time)]


def shuffled(rows: list[JobRow]) -> list[JobRow]:
    return random.Random(13).sample(rows, len(rows))


@pytest.mark.parametrize("states", [(), (JobState.QUEUED, JobState.RUNNING)], ids=["all", "some"])
async def test_pages_neither_repeat_nor_skip_while_jobs_arrive(
    store: StateStore, states: tuple[JobState, ...]
) -> None:
    ids = ids_of_both_kinds(1000)
    rows = [queued_job(job_id=ids[n], accepted_at=after(n // 3), job_type=f"t.{n % 2}") for n in range(1000)]
    await store.insert_jobs(shuffled(rows))
    seen: list[JobRow] = []
    while page := await store.list_jobs(
        JobFilter(states=states, limit=70, before=seen[-1].job_id if seen else None)
    ):
        seen += page
        await store.insert_jobs([queued_job(accepted_at=after(1000 + len(seen))) for _ in range(50)])
    assert seen == sorted(rows, key=lambda row: (row.accepted_at, row.job_id), reverse=True)


async def test_a_page_behind_an_unknown_job_is_an_error_and_not_the_end(store: StateStore) -> None:
    await store.insert_jobs([queued_job()])
    unknown = uuid4()
    with pytest.raises(UnknownJob, match=f"last job of a page, got {unknown}"):
        await store.list_jobs(JobFilter(before=unknown))
