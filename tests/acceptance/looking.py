"""Looking into the store of a warren."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from tests.acceptance.warren import Warren

from warrener_store import open_store
from warrener_store.rows import JobRow, ParkedMessage


def look(warren: Warren, job_id: UUID) -> tuple[JobRow, Sequence[ParkedMessage]]:
    """The job as it stands, and all that is parked."""
    return asyncio.run(_look(warren.store_url, job_id))


async def _look(url: str, job_id: UUID) -> tuple[JobRow, Sequence[ParkedMessage]]:
    store = open_store(url)
    await store.start()
    try:
        return (await store.jobs_by_id([job_id]))[job_id], await store.parked()
    finally:
        await store.close()
