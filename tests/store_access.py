"""A store that is opened for a question or two and closed again."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar
from uuid import UUID

from warrener_store import StateStore, Store, open_store
from warrener_store.jobs.rows import JobRow

T = TypeVar("T")


@asynccontextmanager
async def opened_store(url: str) -> AsyncGenerator[Store]:
    store = open_store(url)
    try:
        await store.start()
        yield store
    finally:
        await store.close()


async def load_job(store: StateStore, job_id: UUID) -> JobRow:
    return (await store.jobs_by_id([job_id]))[job_id]


def on_store(url: str, do: Callable[[Store], Awaitable[T]]) -> T:
    async def once() -> T:
        async with opened_store(url) as store:
            return await do(store)

    return asyncio.run(once())
