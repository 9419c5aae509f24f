"""The successful attempt of a job is stored in the job's own row; every other attempt is a row."""

from dataclasses import replace
from typing import Any

import pytest
from infra.store.tests.raw_sql import run_sql
from tests.store_rows import after, attempt_of, changed, died, running_job, succeeded

from warrener_store import StateStore
from warrener_store.jobs.rows import AttemptOutcome, Save


async def count_attempt_rows(url: str) -> int:
    ((rows,),) = await run_sql(url, "SELECT count(*) FROM warrener_attempts")
    return int(rows)


async def test_a_job_that_succeeds_at_once_is_one_row(store: StateStore, url: str) -> None:
    row = running_job()
    await store.insert_jobs([row])
    save = succeeded(row, "loaded")
    await store.save_jobs([save])
    assert await store.attempts_of([row.job_id]) == [save.attempt]
    assert await count_attempt_rows(url) == 0


async def test_what_went_wrong_before_it_stays_a_row(store: StateStore, url: str) -> None:
    first = running_job()
    await store.insert_jobs([first])
    failed = attempt_of(first, AttemptOutcome.FAILED)
    again = changed(first, attempt=2, failures=1)
    over = succeeded(again.row)
    await store.save_jobs([replace(again, attempt=failed), over])
    assert await store.attempts_of([first.job_id]) == [failed, over.attempt]
    assert await count_attempt_rows(url) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"verdict": "done: recorded by attempt 1"},
        {"agent_id": "a2"},
        {"dispatched_at": after(-1)},
        {"started_at": None, "agent_id": None},
    ],
)
async def test_an_attempt_that_holds_more_than_its_job_is_a_row(
    store: StateStore, url: str, more: dict[str, Any]
) -> None:
    row = running_job()
    await store.insert_jobs([row])
    plain = succeeded(row)
    assert plain.attempt is not None
    attempt = replace(plain.attempt, **more)
    await store.save_jobs([replace(plain, attempt=attempt)])
    assert await store.attempts_of([row.job_id]) == [attempt]
    assert await count_attempt_rows(url) == 1


async def test_a_job_that_dies_or_ends_without_an_attempt_keeps_none_in_its_row(store: StateStore) -> None:
    dead, without = running_job(), running_job()
    await store.insert_jobs([dead, without])
    end = died(dead)
    await store.save_jobs([end, Save(succeeded(without).row)])
    assert await store.attempts_of([dead.job_id]) == [end.attempt]
    assert await store.attempts_of([without.job_id]) == []
