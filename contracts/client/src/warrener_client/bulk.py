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

AT_ONCE = 500  # requests in a batch: what one wait for confirms is worth
ON_THE_WAY = 4  # batches: one is confirmed while the next are written


async def pipelined(
    asks: Iterable[A] | AsyncIterable[A],
    send: Callable[[Sequence[A]], Awaitable[list[J]]],
    batch: int,
    on_the_way: int = ON_THE_WAY,
) -> AsyncGenerator[J]:
    """Send all in batches of `batch`, at most `on_the_way` unconfirmed; yield what `send` returns, in order.

    When the caller leaves early, what was begun is given up (it may or may not have been sent).
    """
    sending: deque[asyncio.Task[list[J]]] = deque()
    try:
        async for some in _batches(asks, batch):
            if len(sending) >= on_the_way:
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


async def _batches(asks: Iterable[A] | AsyncIterable[A], size: int) -> AsyncIterator[list[A]]:
    if not isinstance(asks, AsyncIterable):
        source = iter(asks)
        while portion := list(islice(source, size)):
            yield portion
        return
    some: list[A] = []
    async for ask in asks:
        some.append(ask)
        if len(some) >= size:
            yield some
            some = []
    if some:
        yield some
