"""Consumers that receive nothing are noticed, reported, renewed, and at last given up.

A consumer may be lost: not connected, or cancelled. Or it may seem alive and stall: messages wait in its
queue and it has capacity; or its queue is gone; or the broker counts messages as delivered that never arrive.
Brokers and networks have stalled consumers without a cancel or a closed channel, so an idle consumer has the
broker count the messages.

Messages that the broker counts as delivered cannot be counted. RabbitMQ 3.10 comes to that when a queue is
deleted and declared again within 30 ms: it moves the consumer to the new queue by itself and forgets in the
channel how to hand deliveries over (`rabbit_channel`, the clause for `eol`). So an idle consumer resubscribes
now and then, which returns such messages and costs some frames.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from warrener_runtime.bus.port import Bus, BusUnreachable, Subscription
from warrener_runtime.bus.types import QueueStats
from warrener_runtime.clock import Clock
from warrener_runtime.health import ConsumerStalled, NotReady
from warrener_runtime.lifecycle.components import Loop
from warrener_runtime.logs import get_logger

log = get_logger("hearing")

STALLED_AFTER = 15.0  # longer than a reconnect takes
_CHECK_INTERVAL = 1.0

_supply_log = get_logger("supply")
STARVED_AFTER = 10.0
RESUBSCRIBE_AFTER = 20.0
_BACKLOG_CHECK_INTERVAL = 5.0


class ConsumerHealthMonitor(Loop):
    """Checks `live()` every second. A Consumer has one; others receive by a loop of their own.

    Not live for STALLED_AFTER seconds: the service is not ready. For the time of the setting
    `consumer_stall_timeout`: the process ends with exit code 70.
    """

    def __init__(self, name: str, live: Callable[[], bool], *, clock: Clock | None = None) -> None:
        super().__init__(f"{name} hearing", self._watch, every=_CHECK_INTERVAL, clock=clock, check=self.check)
        self._consumer = name
        self._live = live
        self._silent_since: float | None = None
        self._is_stalled = False

    async def check(self) -> None:
        """Raise NotReady if the consumer is stalled."""
        if self._is_stalled:
            raise NotReady(f"{self._consumer} receives nothing from the broker")

    async def _on_start(self) -> None:
        self._silent_since, self._is_stalled = None, False
        await super()._on_start()

    async def _watch(self) -> None:
        now = self._clock.monotonic()
        if self._live():
            self._silent_since = None
            if self._is_stalled:
                self._is_stalled = False
                log.info(
                    "A consumer receives from the broker again.",
                    action="consumer.receiving",
                    consumer=self._consumer,
                )
            return
        if self._silent_since is None:
            self._silent_since = now
        silent = now - self._silent_since
        registry = self._health_registry
        if registry and silent >= registry.consumer_stall_timeout:
            self._is_stalled = True
            registry.give_up(
                ConsumerStalled(f"{self._consumer} has received nothing from the broker for too long")
            )
        elif silent >= STALLED_AFTER and not self._is_stalled:
            self._is_stalled = True
            log.error(
                "A consumer receives nothing from the broker; the service is not ready.",
                action="consumer.stalled",
                consumer=self._consumer,
                seconds=STALLED_AFTER,
            )


@dataclass
class StallDetector:
    """Decides from observations of a consumer if it is starved. Pure: time is a parameter."""

    starved_after: float
    resubscribe_after: float | None = RESUBSCRIBE_AFTER  # None: never
    _received_count: int | None = field(default=None, init=False)
    _since: float | None = field(default=None, init=False)
    _silent_since: float | None = field(default=None, init=False)

    def is_idle(self, *, received_count: int, has_capacity: bool) -> bool:
        """True if nothing has come since the last call, although something could: only then count the
        backlog."""
        is_idle = received_count == self._received_count and has_capacity
        self._received_count = received_count
        if not is_idle:
            self._since = self._silent_since = None
        return is_idle

    def should_resubscribe(self, *, nothing_unacked: bool, now: float) -> bool:
        """True if the consumer has been idle for so long that the broker's counts are not to be trusted.
        Never while it holds messages, which would come again. The count restarts after a True."""
        if self.resubscribe_after is None:
            return False
        if self._silent_since is None or not nothing_unacked:
            self._silent_since = now
        if now - self._silent_since < self.resubscribe_after:
            return False
        self._silent_since = None
        return True

    def is_starved(self, backlog: QueueStats, now: float) -> bool:
        """True if for all the time messages have waited, or the broker has counted no consumer. The count
        restarts after a True."""
        if not backlog.waiting and backlog.consumers:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        if now - self._since < self.starved_after:
            return False
        self._since = None
        return True


class StallMonitor(Loop):
    """Renews a subscription that is starved, or long idle. `is_starved` stays true until a message comes,
    or none waits."""

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
        super().__init__(f"{name} supply", self._watch, every=_BACKLOG_CHECK_INTERVAL, clock=clock)
        self._consumer, self._bus, self._queue, self._current = name, bus, queue, current
        self._test = StallDetector(STARVED_AFTER, resubscribe_after)
        self.is_starved = False

    async def _on_start(self) -> None:
        self.is_starved = False
        await super()._on_start()

    async def _watch(self) -> None:
        subscription = self._current()
        if subscription is None or not subscription.live:
            return
        if not self._test.is_idle(
            received_count=subscription.received_count, has_capacity=subscription.has_capacity
        ):
            self.is_starved = False
            return
        try:
            backlog = await self._bus.backlog(self._queue)
        except BusUnreachable:
            return  # ConsumerHealthMonitor notices a broken connection
        now = self._clock.monotonic()
        if self._test.is_starved(backlog, now):
            self.is_starved = True
            _supply_log.error(
                "A consumer receives nothing: messages wait in its queue, or the broker counts no consumer. "
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
