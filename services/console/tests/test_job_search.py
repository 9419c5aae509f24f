"""Jobs that no index selects are found however far apart, or close together, they are."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from uuid import UUID

import pytest
from tests.store_access import opened_store
from tests.store_rows import NOON, after, queued_job, waiting_job

from warrener.operations.job_search import JobSearch, find_jobs
from warrener_store import Store, UnknownJob
from warrener_store.jobs.rows import JobFilter, JobRow


@pytest.fixture
async def store(sqlite_store_url: str) -> AsyncIterator[Store]:
    async with opened_store(sqlite_store_url) as opened:
        yield opened


def search(**fields: object) -> JobSearch:
    """A search for jobs of one queue, which no index selects."""
    return JobSearch(JobFilter(limit=10_000, **fields), queue="loading")  # type: ignore[arg-type] # fields of JobFilter


async def put(store: Store, seconds: Sequence[float]) -> list[UUID]:
    """Jobs that were accepted so many seconds after noon; their ids, the newest first."""
    rows: list[JobRow] = []
    for number, second in enumerate(seconds):
        make = queued_job if number % 2 else waiting_job
        rows.append(
            make(queue="loading", job_type=f"type.{number % 3}", accepted_at=after(second), requested_at=NOON)
        )
    for first in range(0, len(rows), 500):
        await store.insert_jobs(rows[first : first + 500])
    return [row.job_id for row in sorted(rows, key=lambda row: (row.accepted_at, row.job_id), reverse=True)]


async def test_jobs_that_are_years_apart_are_found(store: Store) -> None:
    year = timedelta(days=365).total_seconds()
    ids = await put(store, [0, -1, -3600, -86_400, -300 * 86_400, -3 * year, -20 * year])
    found = await find_jobs(store, search())
    assert [row.job_id for row in found.rows] == ids
    assert found.is_complete
    recent = await find_jobs(store, search(accepted_from=after(-2 * 86_400), accepted_until=after(-0.5)))
    assert [row.job_id for row in recent.rows] == ids[1:4]


async def test_more_jobs_of_one_moment_than_a_page_are_each_found_once(store: Store) -> None:
    ids = await put(store, [0.0] * 1200 + [-50.0] * 30)
    found = await find_jobs(store, search())
    assert [row.job_id for row in found.rows] == ids


async def test_a_search_goes_on_where_it_has_ended(store: Store) -> None:
    ids = await put(store, [-7.0 * number for number in range(50)])
    found: list[UUID] = []
    before: UUID | None = None
    while True:
        part = await find_jobs(store, search(before=before), max_examined=20)
        found += [row.job_id for row in part.rows]
        assert part.is_complete == (len(part.rows) < 20)
        if part.before is None:
            break
        before = part.before
    assert found == ids


async def test_a_search_behind_no_job_is_refused(store: Store) -> None:
    with pytest.raises(UnknownJob):
        await find_jobs(store, search(before=UUID(int=1)))
    assert (await find_jobs(store, search())).rows == []
