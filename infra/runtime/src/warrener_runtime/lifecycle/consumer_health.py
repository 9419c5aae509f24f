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
from enum import StrEnum

from warrener_runtime.bus.port import Bus, BusUnreachable, Subscription
from warrener_runtime.bus.types import QueueStats
from warrener_runtime.clock import Clock
from warrener_runtime.health import ConsumerStalled, NotReady
from warrener_runtime.lifecycle.components import Loop
from warrener_runtime.logs import get_logger

log = get_logger("hearing")

STALLED_AFTER = 15.0  # longer than a reconnect takes
GIVE_UP_AFTER = 120.0  # longer than any reconnect
_CHECK_INTERVAL = 1.0

_supply_log = get_logger("supply")
STARVED_AFTER = 10.0
RESUBSCRIBE_AFTER = 20.0
_BACKLOG_CHECK_INTERVAL = 5.0


class ConsumerHealth(StrEnum):
    """The state of a consumer."""

    OK = "ok"
    STALLED = "stalled"  # not ready
    GIVE_UP = "give up"  # the process ends, and a fresh one replaces it


@dataclass
class StallTimer:
    """Judges a subscription from observations of its liveness. Pure: time is a parameter."""

    stalled_after: float
    give_up_after: float
    _silent_since: float | None = field(default=None, init=False)

    def observe(self, *, live: bool, now: float) -> ConsumerHealth:
        """Record an observation; return the state."""
        if live:
            self._silent_since = None
            return ConsumerHealth.OK
        if self._silent_since is None:
            self._silent_since = now
        silent = now - self._silent_since
        if silent >= self.give_up_after:
            return ConsumerHealth.GIVE_UP
        return ConsumerHealth.STALLED if silent >= self.stalled_after else ConsumerHealth.OK


class ConsumerHealthMonitor(Loop):
    """Checks `live()` every second. A Consumer has one; others receive by a loop of their own.

    Not live for `stalled_after` seconds: the service is not ready. For `give_up_after` (default: the setting
    `consumer_stall_timeout`): the process ends with exit code 70.
    """

    def __init__(
        self,
        name: str,
        live: Callable[[], bool],
        *,
        clock: Clock | None = None,
        stalled_after: float = STALLED_AFTER,
        give_up_after: float | None = None,
    ) -> None:
        super().__init__(f"{name} hearing", self._watch, every=_CHECK_INTERVAL, clock=clock, check=self.check)
        self._consumer = name
        self._live = live
        self._stalled_after = stalled_after
        self._give_up_after = give_up_after
        self._health = ConsumerHealth.OK
        self._timer: StallTimer

    async def check(self) -> None:
        """Raise NotReady if the consumer is stalled."""
        if self._health is not ConsumerHealth.OK:
            raise NotReady(f"{self._consumer} receives nothing from the broker")

    async def _on_start(self) -> None:
        self._health = ConsumerHealth.OK
        patience = self._give_up_after or (
            self._health_registry.consumer_stall_timeout if self._health_registry else GIVE_UP_AFTER
        )
        self._timer = StallTimer(self._stalled_after, patience)
        # The patience of the service is known now.
        self._every = min(_CHECK_INTERVAL, self._stalled_after / 4, patience / 4)
        await super()._on_start()

    async def _watch(self) -> None:
        health = self._timer.observe(live=self._live(), now=self._clock.monotonic())
        if health is not self._health:
            self._health = health
            self._report(health)

    def _report(self, health: ConsumerHealth) -> None:
        if health is ConsumerHealth.OK:
            log.info(
                "A consumer receives from the broker again.",
                action="consumer.receiving",
                consumer=self._consumer,
            )
        elif health is ConsumerHealth.STALLED:
            log.error(
                "A consumer receives nothing from the broker; the service is not ready.",
                action="consumer.stalled",
                consumer=self._consumer,
                seconds=self._stalled_after,
            )
        elif self._health_registry:
            self._health_registry.give_up(
                ConsumerStalled(f"{self._consumer} has received nothing from the broker for too long")
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
