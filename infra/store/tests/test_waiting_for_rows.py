"""PostgreSQL: who has waited for a row finds it as another has left it, and does not write over that."""

import asyncio

import asyncpg
import pytest

from warrener_contracts.states import JobState
from warrener_store import migrate, open_store
from warrener_store.address import PostgresAddress, address_of
from warrener_store.successes import Success
from warrener_store.testing import after, running_job

CANCEL = """
UPDATE warrener_jobs
SET state = 'cancelled', version = version + 1, wake_at = NULL, lease_until = NULL, finished_at = now()
WHERE job_id = $1
"""
RENEW = "UPDATE warrener_jobs SET progress = 0.5, version = version + 1 WHERE job_id = $1"


@pytest.mark.parametrize(("change", "left"), [(CANCEL, JobState.CANCELLED), (RENEW, JobState.RUNNING)])
async def test_a_success_that_waits_for_a_row_leaves_it_to_who_has_changed_it(
    postgres_url: str, change: str, left: JobState
) -> None:
    """What is over stays so, and of anything else the judge is asked again."""
    await migrate(postgres_url)
    address = address_of(postgres_url)
    assert isinstance(address, PostgresAddress)
    store, other = open_store(postgres_url), await asyncpg.connect(postgres_url, **address.connect)
    await store.start()
    row = running_job()
    await store.insert_jobs([row])

    deciding = other.transaction()
    await deciding.start()
    await other.execute(change, row.job_id)
    told = Success(row.job_id, row.attempt, "a1", None, after(10), after(50))
    succeeding = asyncio.create_task(store.succeed_jobs([told], after(60)))
    waits = 0
    while not waits:
        waits = await other.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted")
    await deciding.commit()

    assert await succeeding == {}
    held = (await store.jobs_by_id([row.job_id]))[row.job_id]
    assert (held.state, held.version) == (left, row.version + 1)
    await other.close()
    await store.close()
