"""The successful attempt of a job is stored in the job's own row; every other attempt is a row."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from warrener_store import StateStore
from warrener_store.jobs.rows import AttemptOutcome, Save
from warrener_store.testing import after, attempt_of, changed, died, running_job, succeeded


async def count_attempt_rows(engine: AsyncEngine) -> int:
    async with engine.connect() as connection:
        return int((await connection.execute(text("SELECT count(*) FROM warrener_attempts"))).scalar_one())


async def test_a_job_that_succeeds_at_once_is_one_row(store: StateStore, engine: AsyncEngine) -> None:
    row = running_job()
    await store.insert_jobs([row])
    save = succeeded(row, "loaded")
    await store.save_jobs([save])
    assert await store.attempts_of([row.job_id]) == [save.attempt]
    assert await count_attempt_rows(engine) == 0


async def test_what_went_wrong_before_it_stays_a_row(store: StateStore, engine: AsyncEngine) -> None:
    first = running_job()
    await store.insert_jobs([first])
    failed = attempt_of(first, AttemptOutcome.FAILED)
    again = changed(first, attempt=2, failures=1)
    over = succeeded(again.row)
    await store.save_jobs([replace(again, attempt=failed), over])
    assert await store.attempts_of([first.job_id]) == [failed, over.attempt]
    assert await count_attempt_rows(engine) == 1


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
    store: StateStore, engine: AsyncEngine, more: dict[str, Any]
) -> None:
    row = running_job()
    await store.insert_jobs([row])
    plain = succeeded(row)
    assert plain.attempt is not None
    attempt = replace(plain.attempt, **more)
    await store.save_jobs([replace(plain, attempt=attempt)])
    assert await store.attempts_of([row.job_id]) == [attempt]
    assert await count_attempt_rows(engine) == 1


async def test_a_job_that_dies_or_ends_without_an_attempt_keeps_none_in_its_row(store: StateStore) -> None:
    dead, without = running_job(), running_job()
    await store.insert_jobs([dead, without])
    end = died(dead)
    await store.save_jobs([end, Save(succeeded(without).row)])
    assert await store.attempts_of([dead.job_id]) == [end.attempt]
    assert await store.attempts_of([without.job_id]) == []
