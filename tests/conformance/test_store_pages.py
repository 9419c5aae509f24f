"""Lists of jobs: the last accepted first, page by page, whatever arrives meanwhile."""

import random
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from warrener_contracts.identity import child_job_id
from warrener_contracts.state_machine import JobState
from warrener_store import StateStore, UnknownJob
from warrener_store.jobs.rows import JobFilter, JobRow
from warrener_store.testing import NOON, after, queued_job, running_job, waiting_job


def ids_of_both_kinds(count: int) -> list[UUID]:
    """As requests (in the order of time) and child jobs (in none) have them, mixed."""
    start = int(NOON.timestamp() * 1000)
    by_time = (UUID(int=start + n << 80 | 7 << 76 | 2 << 62 | n) for n in range(count))
    parent = uuid4()
    return [child_job_id(parent, str(n)) if n % 3 == 1 else job_id for n, job_id in enumerate(by_time)]


def shuffled(rows: list[JobRow]) -> list[JobRow]:
    return random.Random(13).sample(rows, len(rows))


async def test_the_newest_come_first_and_the_next_page_goes_on(store: StateStore) -> None:
    rows = [queued_job(job_id=job_id, accepted_at=after(n)) for n, job_id in enumerate(ids_of_both_kinds(7))]
    await store.insert_jobs(shuffled(rows))
    page = await store.list_jobs(JobFilter(limit=3))
    rest = await store.list_jobs(JobFilter(limit=10, before=page[-1].job_id))
    assert [*page, *rest] == rows[::-1]
    assert await store.list_jobs(JobFilter(before=rest[-1].job_id)) == []


async def test_jobs_accepted_at_one_moment_are_ordered_by_their_ids(store: StateStore) -> None:
    old, *twins, new = (queued_job(accepted_at=after(n)) for n in (0, 1, 1, 2))
    await store.insert_jobs(shuffled([old, *twins, new]))
    low, high = sorted(twins, key=lambda row: row.job_id)
    assert await store.list_jobs(JobFilter()) == [new, high, low, old]
    assert await store.list_jobs(JobFilter(before=high.job_id)) == [low, old]
    assert await store.list_jobs(JobFilter(before=low.job_id)) == [old]


async def test_a_list_may_begin_and_end_at_a_time(store: StateStore) -> None:
    rows = [queued_job(accepted_at=after(n)) for n in range(5)]
    await store.insert_jobs(shuffled(rows))
    some = JobFilter(accepted_from=after(1), accepted_until=after(3), limit=2)
    page = await store.list_jobs(some)
    assert page == [rows[3], rows[2]]
    assert await store.list_jobs(replace(some, before=rows[2].job_id)) == [rows[1]]


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


async def test_the_next_page_may_go_on_behind_a_job_that_no_longer_matches(store: StateStore) -> None:
    old, last = queued_job(), running_job(accepted_at=after(1))
    await store.insert_jobs([old, last])
    queued = (JobState.QUEUED,)
    assert await store.list_jobs(JobFilter(states=queued, before=last.job_id)) == [old]


async def test_a_page_behind_an_unknown_job_is_an_error_and_not_the_end(store: StateStore) -> None:
    await store.insert_jobs([queued_job()])
    unknown = uuid4()
    with pytest.raises(UnknownJob, match=f"last job of a page, got {unknown}"):
        await store.list_jobs(JobFilter(before=unknown))


async def test_each_filter_and_all_together(store: StateStore) -> None:
    parent = uuid4()
    mine = queued_job(job_type="a.b", parent_id=parent)
    typed, running = waiting_job(job_type="a.b"), running_job(parent_id=parent)
    await store.insert_jobs([mine, typed, running])

    async def listed(**which: object) -> set[UUID]:
        return {row.job_id for row in await store.list_jobs(JobFilter(**which))}  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]

    assert await listed(job_type="a.b") == {mine.job_id, typed.job_id}
    assert await listed(parent_id=parent) == {mine.job_id, running.job_id}
    assert await listed(states=(JobState.RUNNING,)) == {running.job_id}
    assert await listed(states=(JobState.QUEUED, JobState.WAITING, JobState.QUEUED)) == {
        mine.job_id,
        typed.job_id,
    }
    assert await listed(states=(JobState.QUEUED,), job_type="a.b", parent_id=parent) == {mine.job_id}
    assert await listed(states=(JobState.DEAD,)) == set()
    assert await listed(states=(JobState.RUNNING, JobState.DEAD), parent_id=parent) == {running.job_id}
    assert await listed(job_type="a.b", parent_id=uuid4()) == set()
    assert await listed(job_type="nobody's \x00 \udc80") == set()
    assert await listed(job_type="a.b", limit=1) == {max(mine.job_id, typed.job_id)}
