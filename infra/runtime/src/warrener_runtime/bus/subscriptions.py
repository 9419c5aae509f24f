"""The buffer of every subscription: it turns deliveries into batches."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from warrener_runtime.bus.types import Delivery

_CANCEL_INTERVAL = 0.1  # seconds


class DeliveryBuffer:
    """Turns single deliveries into batches: all that have arrived since the last one."""

    def __init__(self) -> None:
        self._waiting: list[Delivery] = []
        self._changed = asyncio.Event()
        self._ended = False

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Add deliveries that arrived together, and wake the task that waits for a batch."""
        self._waiting += deliveries
        self._changed.set()

    def clear(self) -> None:
        """Drop all deliveries, because their channel is gone and the broker redelivers them."""
        self._waiting.clear()
        if not self._ended:
            self._changed.clear()

    def end(self) -> None:
        """Accept nothing more; deliveries that have arrived are still returned."""
        self._ended = True
        self._changed.set()

    async def batch(self) -> list[Delivery]:
        """Return the next batch, or an empty one after the end."""
        while True:
            while not self._waiting and not self._ended:
                self._changed.clear()
                await self._changed.wait()
            seen = len(self._waiting)
            await asyncio.sleep(0)  # the first of many woke us: let the reader add the rest
            if len(self._waiting) == seen and (seen or self._ended):
                break
        taken, self._waiting = self._waiting, []
        return taken


class BufferedSubscription:
    """The asynchronous iterator of a subscription: all that has arrived since the last batch."""

    def __init__(self, convert: Callable[[Delivery], Delivery] | None = None) -> None:
        """`convert`: applied to each delivery."""
        self._buffer = DeliveryBuffer()
        self._convert = convert

    def __aiter__(self) -> AsyncIterator[list[Delivery]]:
        return self

    async def __anext__(self) -> list[Delivery]:
        batch = await self._buffer.batch()
        if not batch:
            raise StopAsyncIteration
        return batch if self._convert is None else list(map(self._convert, batch))


async def cancel_and_wait(task: "asyncio.Task[Any]") -> None:
    """Cancel a task until it has ended.

    Once is not enough: on Python 3.11, asyncio.wait_for swallows a cancellation that comes in the loop turn
    in which its future is done, and the task goes on.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_CANCEL_INTERVAL)
    if not task.cancelled():
        task.exception()  # retrieved: tasks that need it await this one
