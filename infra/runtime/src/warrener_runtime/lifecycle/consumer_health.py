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

from warrener_runtime.bus.port import Bus, BusUnreachable, Subscription
from warrener_runtime.clock import Clock
from warrener_runtime.health import ConsumerStalled, NotReady
from warrener_runtime.lifecycle.components import Loop
from warrener_runtime.logs import get_logger

log = get_logger("hearing")
_supply_log = get_logger("supply")

# Seconds.
_STALLED_AFTER = 15.0  # longer than a reconnect takes
_STARVED_AFTER = 10.0
_RESUBSCRIBE_AFTER = 20.0
_CHECK_INTERVAL, _BACKLOG_CHECK_INTERVAL = 1.0, 5.0


class ConsumerMonitor(Loop):
    """Reports a consumer that is not live, and renews its subscription if that is starved or long idle.

    Not live for _STALLED_AFTER seconds: the service is not ready. For the time of the setting
    `consumer_stall_timeout`: the process ends with exit code 70. `is_starved` stays true until a message
    comes, or none waits.
    """

    def __init__(
        self,
        name: str,
        bus: Bus,
        queue: str,
        current: Callable[[], Subscription | None],
        is_paused: Callable[[], bool],
        *,
        clock: Clock,
        renews_idle: bool,
    ) -> None:
        super().__init__(f"{name} hearing", self._watch, every=_CHECK_INTERVAL, clock=clock, check=self.check)
        self._consumer, self._bus, self._queue = name, bus, queue
        self._current, self._is_paused, self._renews_idle = current, is_paused, renews_idle
        self._is_stalled = self.is_starved = False
        self._received_count: int | None = None
        self._next_count = 0.0  # monotonic, as the moments below
        self._silent_since: float | None = None
        self._starving_since: float | None = None
        self._idle_since: float | None = None

    async def check(self) -> None:
        """Raise NotReady if the consumer is stalled."""
        if self._is_stalled:
            raise NotReady(f"{self._consumer} receives nothing from the broker")

    async def _on_start(self) -> None:
        self._is_stalled = self.is_starved = False
        self._silent_since = None
        await super()._on_start()

    async def _watch(self) -> None:
        subscription, now = self._current(), self._clock.monotonic()
        is_live = subscription is not None and subscription.live
        self._judge(now, is_live=(is_live and not self.is_starved) or self._is_paused())
        if subscription is not None and is_live and now >= self._next_count:
            self._next_count = now + _BACKLOG_CHECK_INTERVAL
            await self._check_supply(subscription)

    def _judge(self, now: float, *, is_live: bool) -> None:
        registry = self._health_registry
        if is_live:
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
        if registry and silent >= registry.consumer_stall_timeout:
            self._is_stalled = True
            registry.give_up(
                ConsumerStalled(f"{self._consumer} has received nothing from the broker for too long")
            )
        elif silent >= _STALLED_AFTER and not self._is_stalled:
            self._is_stalled = True
            log.error(
                "A consumer receives nothing from the broker; the service is not ready.",
                action="consumer.stalled",
                consumer=self._consumer,
                seconds=_STALLED_AFTER,
            )

    async def _check_supply(self, subscription: Subscription) -> None:
        """Count the backlog of a consumer to which nothing has come since the last look, although something
        could."""
        is_idle = subscription.received_count == self._received_count and subscription.has_capacity
        self._received_count = subscription.received_count
        if not is_idle:
            self.is_starved = False
            self._starving_since = self._idle_since = None
            return
        try:
            backlog = await self._bus.backlog(self._queue)
        except BusUnreachable:
            return  # a broken connection is noticed by `live`
        now = self._clock.monotonic()
        if not backlog.waiting and backlog.consumers:
            self.is_starved, self._starving_since = False, None
            self._renew_if_idle(subscription, now)
        elif self._starving_since is None:
            self._starving_since = now
        elif now - self._starving_since >= _STARVED_AFTER:
            self.is_starved, self._starving_since = True, None
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

    def _renew_if_idle(self, subscription: Subscription, now: float) -> None:
        """Resubscribe after so long a silence that the broker's counts are not to be trusted. Never while the
        consumer holds messages, which would come again."""
        if self._idle_since is None or not subscription.nothing_unacked:
            self._idle_since = now
        elif self._renews_idle and now - self._idle_since >= _RESUBSCRIBE_AFTER:
            self._idle_since = None
            subscription.resubscribe()
