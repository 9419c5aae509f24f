"""Parts of every subscription: the buffer of deliveries, and handling them one by one."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

from warrener_runtime.backoff import ExponentialBackoff, is_outage
from warrener_runtime.bus.port import Handler, Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.bus.wrapped import WrappedSubscription
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger

_log = get_logger(__name__)

# A message whose handler fails is redelivered at once; without a pause both would spin.
_FIRST_PAUSE = 0.1

_LONGEST_PAUSE = 5.0
_MAX_TRIES = 3
"""Errors of a handler, outages aside, after which its message is dropped: it stands before all others."""
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

    def __init__(self) -> None:
        self._buffer = DeliveryBuffer()

    def __aiter__(self) -> AsyncIterator[list[Delivery]]:
        return self

    async def __anext__(self) -> list[Delivery]:
        batch = await self._buffer.batch()
        if not batch:
            raise StopAsyncIteration
        return batch


class HandlerSubscription(WrappedSubscription):
    """Feeds a handler from a subscription, in a task of its own: a lost channel does not cancel it. After
    `stop`, deliveries that have arrived are still handled."""

    def __init__(self, subscription: Subscription, handler: Handler, *, clock: Clock, queue: str) -> None:
        super().__init__(subscription)
        self._handler = handler
        self._clock = clock
        self._queue = queue
        self._backoff = ExponentialBackoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        self._errors: Counter[bytes] = Counter()  # by the message's body, in one life of the queue
        self._epoch = 0
        self._task = asyncio.get_running_loop().create_task(self._work(), name=f"listen {queue}")

    @property
    def live(self) -> bool:
        """True if messages reach the handler now."""
        return self._inner.live and not self._task.done()

    async def __anext__(self) -> list[Delivery]:
        """Wait for the end, as the handler gets all deliveries."""
        await asyncio.wait({self._task})
        raise StopAsyncIteration

    async def close(self) -> None:
        """Stop at once: a running handler is cancelled and its message goes back."""
        await cancel_and_wait(self._task)

    async def _work(self) -> None:
        async for batch in self._inner:
            for delivery in batch:
                await self._handle(delivery)

    async def _handle(self, delivery: Delivery) -> None:
        try:
            await self._handler(delivery)
        except Exception as error:  # noqa: BLE001 - after any error of a handler its message goes back
            pause = self._backoff.failed()
            if delivery.epoch != self._epoch:
                self._epoch = delivery.epoch
                self._errors.clear()
            if not is_outage(error):
                self._errors[delivery.body] += 1
            is_dropped = self._errors[delivery.body] >= _MAX_TRIES
            _log.exception(
                f"The handler of a message failed; the message {'is dropped' if is_dropped else 'goes back'}"
                ". Look at the traceback.",
                action="bus.handler_failed",
                queue=self._queue,
                message_id=delivery.message_id,
                pause=pause,
            )
            await self._clock.sleep(pause)
            if is_dropped:
                del self._errors[delivery.body]
            await self._inner.reject([delivery], requeue=not is_dropped)
        else:
            self._errors.pop(delivery.body, None)
            self._backoff.succeeded()
            await self._inner.ack([delivery])


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
