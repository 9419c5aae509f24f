"""A store that is opened for a question or two and closed again."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from warrener_store import Store, open_store

T = TypeVar("T")


@asynccontextmanager
async def opened_store(url: str) -> AsyncGenerator[Store]:
    """The store at this URL."""
    store = open_store(url)
    try:
        await store.start()
        yield store
    finally:
        await store.close()


def on_store(url: str, do: Callable[[Store], Awaitable[T]]) -> T:
    """Call `do` with the store at this URL."""

    async def once() -> T:
        async with opened_store(url) as store:
            return await do(store)

    return asyncio.run(once())
