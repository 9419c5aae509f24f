"""A consumer that seems to live and gets nothing: messages wait in its queue, and it has room for them; or
its queue is gone, and nobody has told it; or the broker takes them for delivered, and they never arrive.

Brokers and networks have brought this about without a word to the consumer: no cancel, no closed channel. So
whoever has heard nothing for a while asks the broker whether there would have been something to hear.

What is taken for delivered cannot be asked for. RabbitMQ 3.10 comes to it when a queue is deleted and
somebody declares it again within 30 ms: it moves the consumer to the new queue by itself, says nothing, and
forgets in the channel what it needs to hand deliveries over (`rabbit_channel`, the clause for `eol`). So
whoever hears nothing for some time consumes anew, which gives such messages back; it costs an idle consumer
some frames.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from warrener_runtime.bus.port import Bus, BusUnreachable, QueueStats, Subscription
from warrener_runtime.clock import Clock
from warrener_runtime.lifecycle.component import ManagedComponent, cancel
from warrener_runtime.logs import get_logger

log = get_logger("supply")

STARVED_AFTER = 10.0
RESUBSCRIBE_AFTER = 20.0
_CHECK_INTERVAL = 5.0


@dataclass
class StallDetector:
    """Told now and then how a consumer fares, it says whether it starves. Pure: time is handed in."""

    starved_after: float
    resubscribe_after: float | None = RESUBSCRIBE_AFTER  # None: never
    _received_count: int | None = field(default=None, init=False)
    _since: float | None = field(default=None, init=False)
    _silent_since: float | None = field(default=None, init=False)

    def is_idle(self, *, received_count: int, has_capacity: bool) -> bool:
        """Whether nothing has come since the last look, though something could: only then it is worth
        asking."""
        is_idle = received_count == self._received_count and has_capacity
        self._received_count = received_count
        if not is_idle:
            self._since = self._silent_since = None
        return is_idle

    def should_resubscribe(self, *, nothing_unacked: bool, now: float) -> bool:
        """Whether it has been idle for so long that what the broker says of it is not to be trusted. Not
        while it holds something: that would come again. After a yes it begins to count anew."""
        if self.resubscribe_after is None:
            return False
        if self._silent_since is None or not nothing_unacked:
            self._silent_since = now
        if now - self._silent_since < self.resubscribe_after:
            return False
        self._silent_since = None
        return True

    def is_starved(self, backlog: QueueStats, now: float) -> bool:
        """Whether messages have waited, or the broker has known of no consumer, all the time. After a yes it
        begins to count anew."""
        if not backlog.waiting and backlog.consumers:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        if now - self._since < self.starved_after:
            return False
        self._since = None
        return True


class StallMonitor(ManagedComponent):
    """Renews a subscription that starves, or has been idle for long. `is_starved` stays true until something
    comes, or nothing waits."""

    def __init__(
        self,
        name: str,
        bus: Bus,
        queue: str,
        current: Callable[[], Subscription | None],
        clock: Clock,
        *,
        resubscribe_after: float | None = RESUBSCRIBE_AFTER,
    ) -> None:
        super().__init__(f"{name} supply")
        self._consumer, self._bus, self._queue, self._current, self._clock = name, bus, queue, current, clock
        self._test = StallDetector(STARVED_AFTER, resubscribe_after)
        self._task: asyncio.Task[None] | None = None
        self.is_starved = False

    async def _on_start(self) -> None:
        self.is_starved = False
        self._task = asyncio.create_task(self._run(), name=self.name)

    async def _on_stop(self) -> None:
        await cancel(self._task)
        self._task = None

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(_CHECK_INTERVAL)
            subscription = self._current()
            if subscription is not None and subscription.live:
                await self._watch(subscription)

    async def _watch(self, subscription: Subscription) -> None:
        if not self._test.is_idle(
            received_count=subscription.received_count, has_capacity=subscription.has_capacity
        ):
            self.is_starved = False
            return
        try:
            backlog = await self._bus.backlog(self._queue)
        except BusUnreachable:
            return  # a broken connection is noticed by itself
        now = self._clock.monotonic()
        if self._test.is_starved(backlog, now):
            self.is_starved = True
            log.error(
                "A consumer gets nothing: messages wait in its queue, or the broker knows of no consumer. "
                "Consuming by another channel.",
                action="consumer.starved",
                consumer=self._consumer,
                queue=self._queue,
                waiting=backlog.waiting,
                consumers=backlog.consumers,
            )
            subscription.resubscribe()
        elif not backlog.waiting and backlog.consumers:
            self.is_starved = False
            if self._test.should_resubscribe(nothing_unacked=subscription.nothing_unacked, now=now):
                subscription.resubscribe()
