"""One message at a time: what carries `Bus.listen`, whatever brings the deliveries."""

import asyncio
from collections.abc import AsyncIterator, Iterable

from warrener_runtime.backoff import ExponentialBackoff
from warrener_runtime.bus.port import Delivery, Handler, Subscription
from warrener_runtime.bus.task_cancellation import cancel_and_wait
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger

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
