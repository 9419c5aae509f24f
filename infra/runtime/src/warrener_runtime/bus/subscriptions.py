"""What a consumer has received and nobody has taken yet: the buffer behind every subscription."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from warrener_runtime.backoff import ExponentialBackoff
from warrener_runtime.bus.port import Handler, Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger


class DeliveryBuffer:
    """Deliveries go in one by one and come out in batches: all that arrived since the last one."""

    def __init__(self) -> None:
        self._waiting: list[Delivery] = []
        self._changed = asyncio.Event()
        self._ended = False

    def put(self, delivery: Delivery) -> None:
        """Add one; whoever waits for a batch wakes."""
        self._waiting.append(delivery)
        self._changed.set()

    def put_all(self, deliveries: Sequence[Delivery]) -> None:
        """Add what came together; whoever waits for a batch wakes."""
        self._waiting += deliveries
        self._changed.set()

    def clear(self) -> None:
        """Their channel is gone: the broker gives them out again by itself."""
        self._waiting.clear()
        if not self._ended:
            self._changed.clear()

    def end(self) -> None:
        """Nothing more will arrive; what did is still handed out."""
        self._ended = True
        self._changed.set()

    async def batch(self) -> list[Delivery]:
        """The next batch, or an empty one after the end."""
        while True:
            while not self._waiting and not self._ended:
                self._changed.clear()
                await self._changed.wait()
            seen = len(self._waiting)
            await asyncio.sleep(0)  # the first of many woke us: let the reader hand over those it has
            if len(self._waiting) == seen and (seen or self._ended):
                break
        taken, self._waiting = self._waiting, []
        return taken


_log = get_logger(__name__)

# A message that its handler cannot take comes back at once; without a pause the two would spin.
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class HandlerSubscription:
    """Feeds a handler from a subscription, in a task of its own: a lost channel does not cancel it."""

    def __init__(self, subscription: Subscription, handler: Handler, *, clock: Clock, queue: str) -> None:
        self._subscription = subscription
        self._handler = handler
        self._clock = clock
        self._queue = queue
        self._backoff = ExponentialBackoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        self._task = asyncio.get_running_loop().create_task(self._work(), name=f"listen {queue}")

    @property
    def live(self) -> bool:
        """Whether messages would reach the handler now."""
        return self._subscription.live and not self._task.done()

    @property
    def epoch(self) -> int:
        """That of what feeds it."""
        return self._subscription.epoch

    @property
    def received_count(self) -> int:
        """That of what feeds it."""
        return self._subscription.received_count

    @property
    def has_capacity(self) -> bool:
        """That of what feeds it."""
        return self._subscription.has_capacity

    @property
    def nothing_unacked(self) -> bool:
        """That of what feeds it."""
        return self._subscription.nothing_unacked

    def resubscribe(self) -> None:
        """Give up the channel, and consume by another one."""
        self._subscription.resubscribe()

    def __aiter__(self) -> AsyncIterator[list[Delivery]]:
        return self

    async def __anext__(self) -> list[Delivery]:
        """The handler has them all: wait for the end."""
        await asyncio.wait({self._task})
        raise StopAsyncIteration

    async def ack(self, deliveries: Iterable[Delivery]) -> None:
        """Done by the listening itself."""
        await self._subscription.ack(deliveries)

    async def reject(self, deliveries: Iterable[Delivery], *, requeue: bool) -> None:
        """Done by the listening itself."""
        await self._subscription.reject(deliveries, requeue=requeue)

    async def stop(self) -> None:
        """Receive no more; what has arrived is still handled. May be called twice."""
        await self._subscription.stop()

    async def close(self) -> None:
        """Stop at once: a handler that runs is cancelled and its message goes back."""
        await cancel_and_wait(self._task)

    async def _work(self) -> None:
        async for batch in self._subscription:
            for delivery in batch:
                await self._handle(delivery)

    async def _handle(self, delivery: Delivery) -> None:
        try:
            await self._handler(delivery)
        except Exception:  # noqa: BLE001 - a handler may raise what it likes; its message is given back
            pause = self._backoff.failed()
            _log.exception(
                "The handler of a message failed; the message goes back to its queue. Look at the traceback.",
                action="bus.handler_failed",
                queue=self._queue,
                message_id=delivery.message_id,
                pause=pause,
            )
            await self._clock.sleep(pause)
            await self._subscription.reject([delivery], requeue=True)
        else:
            self._backoff.succeeded()
            await self._subscription.ack([delivery])


_CANCEL_INTERVAL = 0.1  # seconds


async def cancel_and_wait(task: "asyncio.Task[Any]") -> None:
    """Cancel it until it has ended.

    Once is not enough: on Python 3.11, asyncio.wait_for swallows a cancellation that comes in the very turn
    in which what it waits for is done, and the task goes on.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_CANCEL_INTERVAL)
    if not task.cancelled():
        task.exception()  # seen; whoever cares for it watches the task itself
