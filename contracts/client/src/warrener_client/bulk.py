"""Many requests: a few batches on their way at once, their handles in order."""

import asyncio
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Sequence,
)
from itertools import islice
from typing import TypeVar

A = TypeVar("A")
J = TypeVar("J")

BATCH_SIZE = 500  # requests in a batch: what one wait for confirms is worth
MAX_BATCHES_IN_FLIGHT = 4  # batches: one is confirmed while the next are written


async def pipeline(
    items: Iterable[A] | AsyncIterable[A],
    send: Callable[[Sequence[A]], Awaitable[list[J]]],
    batch: int,
    max_in_flight: int = MAX_BATCHES_IN_FLIGHT,
) -> AsyncGenerator[J]:
    """Send all in batches of `batch`, at most `max_in_flight` unconfirmed; yield the results in order.

    When the caller leaves early, what was begun is given up (it may or may not have been sent).
    """
    sending: deque[asyncio.Task[list[J]]] = deque()
    try:
        async for some in _batches(items, batch):
            if len(sending) >= max_in_flight:
                for each in await sending[0]:
                    yield each
                sending.popleft()
            sending.append(asyncio.create_task(_run(send, some)))
        while sending:
            for each in await sending[0]:
                yield each
            sending.popleft()
    finally:
        for task in sending:
            task.cancel()
        if sending:
            await asyncio.gather(*sending, return_exceptions=True)


async def _run(send: Callable[[Sequence[A]], Awaitable[list[J]]], some: Sequence[A]) -> list[J]:
    return await send(some)


async def _batches(items: Iterable[A] | AsyncIterable[A], size: int) -> AsyncIterator[list[A]]:
    if not isinstance(items, AsyncIterable):
        source = iter(items)
        while portion := list(islice(source, size)):
            yield portion
        return
    some: list[A] = []
    async for item in items:
        some.append(item)
        if len(some) >= size:
            yield some
            some = []
    if some:
        yield some
