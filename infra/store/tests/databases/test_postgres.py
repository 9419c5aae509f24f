"""PostgreSQL: a statement that waited for a row or was decided on an old one sees the row of the other."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from tests.store_access import opened_store
from tests.store_rows import NOON, after, running_job, schedule_row, tick_row

from warrener_contracts.events import TickStatus
from warrener_contracts.schedule_rules import CronRule
from warrener_contracts.state_machine import JobState
from warrener_store.databases.address import SESSION
from warrener_store.jobs.views import Success
from warrener_store.schedules.rows import Advance, DueSchedule, ScheduleRow, TickRow
from warrener_store.store import Store

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]  # generic in the stubs alone

CANCEL = """
UPDATE warrener_jobs
SET state = 'cancelled', version = version + 1, wake_at = NULL, lease_until = NULL, finished_at = now()
WHERE job_id = $1
"""
RENEW = "UPDATE warrener_jobs SET progress = 0.5, version = version + 1 WHERE job_id = $1"


@pytest.fixture
async def store(postgres_store_url: str) -> AsyncGenerator[Store]:
    async with opened_store(postgres_store_url) as opened:
        yield opened


@pytest.fixture
async def other(postgres_store_url: str) -> "AsyncGenerator[Connection]":
    """A session of somebody else."""
    connection = await asyncpg.connect(postgres_store_url, server_settings=dict(SESSION))
    yield connection
    await connection.close()


async def until_waiting(other: "Connection") -> None:
    while not await other.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
        pass


@pytest.mark.parametrize(("change", "left"), [(CANCEL, JobState.CANCELLED), (RENEW, JobState.RUNNING)])
async def test_a_success_that_waits_for_a_row_leaves_it_to_who_has_changed_it(
    store: Store, other: "Connection", change: str, left: JobState
) -> None:
    """A job that is over stays over; any other change is decided again."""
    row = running_job()
    await store.insert_jobs([row])
    deciding = other.transaction()
    await deciding.start()
    await other.execute(change, row.job_id)
    success = Success(row.job_id, row.attempt, "a1", None, after(10), after(50))
    succeeding = asyncio.create_task(store.succeed_jobs([success], after(60)))
    await until_waiting(other)
    await deciding.commit()
    assert await succeeding == {}
    held = (await store.jobs_by_id([row.job_id]))[row.job_id]
    assert (held.state, held.version) == (left, row.version + 1)


SCHEDULE = schedule_row("hourly", CronRule(expression="0 * * * *"), next_at=NOON, wake_at=NOON)
TICK = tick_row("hourly", NOON, TickStatus.SKIPPED)


def on_to(seconds: float) -> list[Advance]:
    return [Advance(replace(SCHEDULE, wake_at=after(seconds)), (TICK,))]


async def _pause(store: Store) -> None:
    await store.pause_schedules(["hourly"], NOON, paused=True)


async def _remove(store: Store) -> None:
    await store.remove_schedules(["hourly"], NOON)


async def _advance(store: Store) -> None:
    assert await store.advance_schedules(NOON, 1, lambda _: on_to(60)) == [TICK]


@pytest.mark.parametrize("change", [_pause, _remove, _advance])
async def test_a_tick_is_not_stored_where_its_schedule_changed_while_it_was_decided(
    store: Store, postgres_store_url: str, change: Any
) -> None:
    await store.put_schedules([SCHEDULE])
    left: list[tuple[dict[str, ScheduleRow], list[TickRow]]] = []

    async def state(one: Store) -> tuple[dict[str, ScheduleRow], list[TickRow]]:
        return await one.schedules(), await one.ticks_of("hourly")

    async def elsewhere() -> None:
        async with opened_store(postgres_store_url) as another:
            await change(another)
            left.append(await state(another))

    def decide(due: Sequence[DueSchedule]) -> list[Advance]:
        with ThreadPoolExecutor(1) as other_process:
            other_process.submit(asyncio.run, elsewhere()).result()
        return on_to(3600)

    assert await store.advance_schedules(NOON, 1, decide) == []
    assert [await state(store)] == left


async def test_a_removal_skips_the_ticks_that_were_stored_while_it_waited(
    store: Store, other: "Connection"
) -> None:
    await store.put_schedules([SCHEDULE])
    keeping = other.transaction()
    await keeping.start()
    await other.execute("UPDATE warrener_schedules SET waiting = 1")
    await other.execute(
        "INSERT INTO warrener_ticks (schedule, nominal_at, status, due_at, decided_at, reason)"
        " VALUES ('hourly', $1, 'waiting', $1, $1, '')",
        NOON,
    )
    removing = asyncio.create_task(store.remove_schedules(["hourly"], after(1)))
    await until_waiting(other)
    await keeping.commit()
    await removing
    assert await store.schedules() == {}
    assert [one.status for one in await store.ticks_of("hourly")] == [TickStatus.SKIPPED]
