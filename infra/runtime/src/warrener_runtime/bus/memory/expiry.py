"""Time to live in the memory broker: one waiting task per queue that holds something."""

import asyncio
from collections.abc import Callable

from warrener_runtime.bus.memory.queue import MemoryQueue
from warrener_runtime.clock import Clock


class Expiry:
    """Wakes when the head of a queue is due. It waits by the clock alone, so virtual time drives it."""

    def __init__(self, clock: Clock, expire: Callable[[MemoryQueue], None]) -> None:
        self._clock = clock
        self._expire = expire
        self._waiting: dict[str, asyncio.Task[None]] = {}

    def watch(self, queue: MemoryQueue) -> None:
        """See to it that what is in `queue` expires; nothing to do where that is seen to already."""
        if queue.name not in self._waiting and queue.next_expiry() is not None:
            self._waiting[queue.name] = asyncio.get_running_loop().create_task(self._wait(queue))

    def pause(self) -> None:
        """Move nothing until watched again."""
        for task in self._waiting.values():
            task.cancel()
        self._waiting.clear()

    def forget(self, queue: MemoryQueue) -> None:
        """It was deleted."""
        if (task := self._waiting.pop(queue.name, None)) is not None:
            task.cancel()

    async def _wait(self, queue: MemoryQueue) -> None:
        while (due := queue.next_expiry()) is not None:
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
            self._expire(queue)
        del self._waiting[queue.name]
