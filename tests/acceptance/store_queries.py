"""Looking into the store of a warren."""

import asyncio
from collections.abc import Collection, Sequence
from uuid import UUID

from tests.acceptance.warren import Warren

from warrener_store import open_store
from warrener_store.agents.rows import AgentRow
from warrener_store.dead_letters.rows import DeadLetter, DeadLetterFilter
from warrener_store.jobs.rows import AttemptRow, JobRow
from warrener_store.parked.rows import ParkedMessage
from warrener_store.schedules.rows import TickRow


def find_job(warren: Warren, job_id: UUID) -> tuple[JobRow, Sequence[ParkedMessage]]:
    """The job as it stands, and all that is parked."""
    return asyncio.run(_find_job(warren.store_url, job_id))


def job_types_of(warren: Warren) -> Collection[str]:
    """The job types that agents have announced."""
    return asyncio.run(_job_types(warren.store_url))


def parked_in(warren: Warren) -> Sequence[ParkedMessage]:
    """All that is parked."""
    return asyncio.run(_parked(warren.store_url))


def rows_of(warren: Warren, job_ids: Sequence[UUID]) -> dict[UUID, JobRow]:
    """Those of these jobs that there are."""
    return asyncio.run(_rows_of(warren.store_url, job_ids))


def job_history(warren: Warren, job_id: UUID) -> tuple[JobRow, Sequence[AttemptRow], Sequence[ParkedMessage]]:
    """The job, its attempts that are over, and all that is parked."""
    return asyncio.run(_job_history(warren.store_url, job_id))


def dead_letter_of(warren: Warren, job_id: UUID) -> DeadLetter:
    """The dead letter of this job."""
    return asyncio.run(_dead_letter_of(warren.store_url, job_id))


def agents_of(warren: Warren) -> Sequence[AgentRow]:
    """The agents that have been heard of."""
    return asyncio.run(_agents_of(warren.store_url))


def tick_history(warren: Warren, schedule: str) -> list[TickRow]:
    """The ticks of a schedule, the first one first."""
    return asyncio.run(_tick_history(warren.store_url, schedule))


async def _tick_history(url: str, schedule: str) -> list[TickRow]:
    store = open_store(url)
    await store.start()
    try:
        return [*reversed(await store.ticks_of(schedule, 1000))]
    finally:
        await store.close()


async def _agents_of(url: str) -> Sequence[AgentRow]:
    store = open_store(url)
    await store.start()
    try:
        return await store.agents()
    finally:
        await store.close()


async def _job_types(url: str) -> Collection[str]:
    store = open_store(url)
    await store.start()
    try:
        return set(await store.job_types())
    finally:
        await store.close()


async def _parked(url: str) -> Sequence[ParkedMessage]:
    store = open_store(url)
    await store.start()
    try:
        return await store.parked()
    finally:
        await store.close()


async def _rows_of(url: str, job_ids: Sequence[UUID]) -> dict[UUID, JobRow]:
    store = open_store(url)
    await store.start()
    try:
        return await store.jobs_by_id(job_ids)
    finally:
        await store.close()


async def _job_history(
    url: str, job_id: UUID
) -> tuple[JobRow, Sequence[AttemptRow], Sequence[ParkedMessage]]:
    store = open_store(url)
    await store.start()
    try:
        rows, attempts = await store.jobs_by_id([job_id]), await store.attempts_of([job_id])
        return rows[job_id], attempts, await store.parked()
    finally:
        await store.close()


async def _find_job(url: str, job_id: UUID) -> tuple[JobRow, Sequence[ParkedMessage]]:
    store = open_store(url)
    await store.start()
    try:
        return (await store.jobs_by_id([job_id]))[job_id], await store.parked()
    finally:
        await store.close()


async def _dead_letter_of(url: str, job_id: UUID) -> DeadLetter:
    store = open_store(url)
    await store.start()
    try:
        (dead_letter,) = [
            each
            for each in await store.dead_letter_store.list_dead_letters(DeadLetterFilter(states=()))
            if each.job_id == job_id
        ]
        return dead_letter
    finally:
        await store.close()
