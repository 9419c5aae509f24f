"""Queues of low traffic, whose messages are handled one at a time: commands, and what one process is sent."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from warrener_runtime.backoff import ExponentialBackoff, is_outage
from warrener_runtime.bus.port import Bus, Subscription
from warrener_runtime.bus.subscriptions import cancel_and_wait
from warrener_runtime.bus.types import Delivery
from warrener_runtime.clock import Clock
from warrener_runtime.lifecycle.components import ManagedComponent
from warrener_runtime.lifecycle.consumer import Consumer, Probe
from warrener_runtime.lifecycle.crashed_readers import CrashCounts, IsolatingHandler, is_suspect
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry.metrics import Metrics

_listener_log, _commands_log = get_logger("listener"), get_logger("commands")

MAX_RETURNS = 3
"""Returns to the queue after which a command that fails, although there is no outage, is dead-lettered."""
_PREFETCH, _COMMANDS_PREFETCH = 10, 16
# A message whose handler fails is redelivered at once; without a pause both would spin.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_MAX_TRIES = 3
"""Errors of a handler, outages aside, after which its message is dropped: it stands before all others."""


def consume_commands(
    queue: str,
    receive: Callable[[Delivery], Awaitable[None]],
    bus: Bus,
    *,
    tries: CrashCounts,
    clock: Clock,
    probe: Probe,
    metrics: Metrics,
) -> Consumer:
    """Make the consumer of a queue of commands.

    Messages are carried out one at a time, in their order: a trigger finds the schedule that was put before
    it. Each is acknowledged after `receive`, which is called again after a failure and after a crash. An
    outage is waited for. A message that fails by a bug would stop the others without end, so it is
    dead-lettered after MAX_RETURNS returns.
    """

    async def handle(subscription: Subscription, deliveries: list[Delivery]) -> None:
        [delivery] = deliveries
        try:
            await receive(delivery)
        except Exception as error:
            if is_outage(error) or not is_suspect(delivery, MAX_RETURNS):
                raise
            _commands_log.exception(
                "A command was dead-lettered: it kept failing, although there is no outage.",
                action="commands.dead_lettered",
                queue=queue,
                message_id=delivery.message_id,
            )
            await subscription.reject([delivery], requeue=False)
        else:
            await subscription.ack([delivery])

    return Consumer(
        "commands",
        bus,
        queue,
        _COMMANDS_PREFETCH,
        IsolatingHandler(queue, handle, tries),
        max_batch_size=1,
        clock=clock,
        probe=probe,
        metrics=metrics,
    )


class Listener(ManagedComponent):
    """Consumes one queue until it stops, draining included.

    A message is acknowledged after `handle` returns, and goes back to the queue if it raises. A lost channel
    does not cancel `handle`; a stop does, and its message goes back.
    """

    def __init__(
        self, bus: Bus, queue: str, handle: Callable[[Delivery], Awaitable[None]], clock: Clock
    ) -> None:
        super().__init__(f"listener of {queue}")
        self._bus, self._queue, self._handle, self._clock = bus, queue, handle, clock
        self._backoff = ExponentialBackoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        self._errors: Counter[bytes] = Counter()  # by the message's body, in one life of the queue
        self._errors_epoch = 0
        self._subscription: Subscription | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def epoch(self) -> int | None:
        """The number of the queue's life (`Subscription.epoch`); None if nothing can arrive now."""
        subscription, task = self._subscription, self._task
        if subscription is None or task is None or task.done() or not subscription.live:
            return None
        return subscription.epoch

    async def _on_start(self) -> None:
        self._subscription = await self._bus.subscribe(self._queue, prefetch=_PREFETCH)
        self._task = asyncio.create_task(self._run(self._subscription), name=self.name)

    async def _on_stop(self) -> None:
        if self._task is not None:
            await cancel_and_wait(self._task)
        if self._subscription is not None:
            await self._subscription.close()
        self._subscription = self._task = None

    async def _run(self, subscription: Subscription) -> None:
        async for batch in subscription:
            for delivery in batch:
                try:
                    await self._handle(delivery)
                except Exception as error:  # noqa: BLE001 - after any error of a handler its message goes back
                    await self._return(subscription, delivery, error)
                else:
                    self._errors.pop(delivery.body, None)
                    self._backoff.succeeded()
                    await subscription.ack([delivery])

    async def _return(self, subscription: Subscription, delivery: Delivery, error: Exception) -> None:
        """Return a message to the queue after a pause, or drop it."""
        pause = self._backoff.failed()
        if delivery.epoch != self._errors_epoch:
            self._errors_epoch = delivery.epoch
            self._errors.clear()
        if not is_outage(error):
            self._errors[delivery.body] += 1
        is_dropped = self._errors[delivery.body] >= _MAX_TRIES
        _listener_log.exception(
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
        await subscription.reject([delivery], requeue=not is_dropped)
