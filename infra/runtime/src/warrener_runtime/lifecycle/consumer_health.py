"""Nobody is deaf without notice: watch whether a subscription is live, and say so, and in the end give up."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from warrener_runtime.clock import Clock, SystemClock
from warrener_runtime.lifecycle.component import ManagedComponent, cancel
from warrener_runtime.lifecycle.health_registry import (
    ConsumerStalled,
    HealthRegistry,
    NotReady,
    current_health_registry,
)
from warrener_runtime.logs import get_logger

log = get_logger("hearing")

STALLED_AFTER = 15.0  # longer than a reconnect takes
GIVE_UP_AFTER = 120.0  # longer than it can be hoped for
_CHECK_INTERVAL = 1.0


class ConsumerHealth(StrEnum):
    """How well the broker is heard."""

    OK = "ok"
    STALLED = "stalled"  # not ready
    GIVE_UP = "give up"  # the process ends, for a fresh one to take its place


@dataclass
class StallTimer:
    """Told now and then whether a subscription is live, it says how bad it is. Pure: time is handed in."""

    stalled_after: float
    give_up_after: float
    _silent_since: float | None = field(default=None, init=False)

    def observe(self, *, live: bool, now: float) -> ConsumerHealth:
        """What to think of it at this moment."""
        if live:
            self._silent_since = None
            return ConsumerHealth.OK
        if self._silent_since is None:
            self._silent_since = now
        silent = now - self._silent_since
        if silent >= self.give_up_after:
            return ConsumerHealth.GIVE_UP
        return ConsumerHealth.STALLED if silent >= self.stalled_after else ConsumerHealth.OK


class ConsumerHealthMonitor(ManagedComponent):
    """Looks every second whether `live()`, for those who receive by a loop of their own; a Consumer has one.

    Not live for `stalled_after` seconds: the service is not ready. For `give_up_after` (default: the setting
    `give_up_deaf_after`): the process ends with exit code 70.
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
        super().__init__(f"{name} hearing")
        self._consumer = name
        self._live = live
        self._clock = clock or SystemClock()
        self._stalled_after = stalled_after
        self._give_up_after = give_up_after
        self._health = ConsumerHealth.OK
        self._task: asyncio.Task[None] | None = None
        self._health_registry: HealthRegistry | None = None

    async def check(self) -> None:
        """Raise NotReady if nothing is heard."""
        if self._health is not ConsumerHealth.OK:
            raise NotReady(f"{self._consumer} hears nothing from the broker")

    async def _on_start(self) -> None:
        self._health = ConsumerHealth.OK
        self._health_registry = current_health_registry.get()
        if self._health_registry:
            self._health_registry.register(self.name, self.check)
        self._task = asyncio.create_task(self._watch(), name=self.name)

    async def _on_stop(self) -> None:
        await cancel(self._task)
        self._task = None
        if self._health_registry:
            self._health_registry.unregister(self.name)

    async def _watch(self) -> None:
        patience = self._give_up_after or (
            self._health_registry.give_up_deaf_after if self._health_registry else GIVE_UP_AFTER
        )
        test = StallTimer(self._stalled_after, patience)
        pause = min(_CHECK_INTERVAL, self._stalled_after / 4, patience / 4)
        while True:
            health = test.observe(live=self._live(), now=self._clock.monotonic())
            if health is not self._health:
                self._health = health
                self._report(health)
            await self._clock.sleep(pause)

    def _report(self, health: ConsumerHealth) -> None:
        if health is ConsumerHealth.OK:
            log.info("The broker is heard again.", action="hearing.well", consumer=self._consumer)
        elif health is ConsumerHealth.STALLED:
            log.error(
                "Nothing is heard from the broker; the service is not ready.",
                action="hearing.deaf",
                consumer=self._consumer,
                seconds=self._stalled_after,
            )
        elif self._health_registry:
            self._health_registry.give_up(
                ConsumerStalled(f"{self._consumer} has heard nothing from the broker for too long")
            )
