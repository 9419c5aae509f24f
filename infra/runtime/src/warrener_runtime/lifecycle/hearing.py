"""Nobody is deaf without notice: watch whether a subscription is live, and say so, and in the end give up."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from warrener_runtime.clock import Clock, SystemClock
from warrener_runtime.lifecycle.component import Managed, cancel
from warrener_runtime.lifecycle.vitals import Deaf, NotReady, Vitals, vitals_here
from warrener_runtime.logs import get_logger

log = get_logger("hearing")

DEAF_AFTER = 15.0  # longer than a reconnect takes
GIVE_UP_AFTER = 120.0  # longer than it can be hoped for
_LOOK_EVERY = 1.0


class Hearing(StrEnum):
    """How well the broker is heard."""

    WELL = "well"
    DEAF = "deaf"  # not ready
    LOST = "lost"  # the process ends, for a fresh one to take its place


@dataclass
class HearingTest:
    """Told now and then whether a subscription is live, it says how bad it is. Pure: time is handed in."""

    deaf_after: float
    lost_after: float
    _silent_since: float | None = field(default=None, init=False)

    def observe(self, *, live: bool, now: float) -> Hearing:
        """What to think of it at this moment."""
        if live:
            self._silent_since = None
            return Hearing.WELL
        if self._silent_since is None:
            self._silent_since = now
        silent = now - self._silent_since
        if silent >= self.lost_after:
            return Hearing.LOST
        return Hearing.DEAF if silent >= self.deaf_after else Hearing.WELL


class HearingWatch(Managed):
    """Looks every second whether `live()`, for those who receive by a loop of their own; a Consumer has one.

    Not live for `deaf_after` seconds: the service is not ready. For `give_up_after` (default: the setting
    `give_up_deaf_after`): the process ends with exit code 70.
    """

    def __init__(
        self,
        name: str,
        live: Callable[[], bool],
        *,
        clock: Clock | None = None,
        deaf_after: float = DEAF_AFTER,
        give_up_after: float | None = None,
    ) -> None:
        super().__init__(f"{name} hearing")
        self._of = name
        self._live = live
        self._clock = clock or SystemClock()
        self._deaf_after = deaf_after
        self._give_up_after = give_up_after
        self._hearing = Hearing.WELL
        self._task: asyncio.Task[None] | None = None
        self._vitals: Vitals | None = None

    async def check(self) -> None:
        """Raise NotReady if nothing is heard."""
        if self._hearing is not Hearing.WELL:
            raise NotReady(f"{self._of} hears nothing from the broker")

    async def _on_start(self) -> None:
        self._hearing = Hearing.WELL
        self._vitals = vitals_here.get()
        if self._vitals:
            self._vitals.watch(self.name, self.check)
        self._task = asyncio.create_task(self._look(), name=self.name)

    async def _on_stop(self) -> None:
        await cancel(self._task)
        self._task = None
        if self._vitals:
            self._vitals.forget(self.name)

    async def _look(self) -> None:
        patience = self._give_up_after or (self._vitals.give_up_deaf_after if self._vitals else GIVE_UP_AFTER)
        test = HearingTest(self._deaf_after, patience)
        pause = min(_LOOK_EVERY, self._deaf_after / 4, patience / 4)
        while True:
            hearing = test.observe(live=self._live(), now=self._clock.monotonic())
            if hearing is not self._hearing:
                self._hearing = hearing
                self._tell(hearing)
            await self._clock.sleep(pause)

    def _tell(self, hearing: Hearing) -> None:
        if hearing is Hearing.WELL:
            log.info("The broker is heard again.", action="hearing.well", consumer=self._of)
        elif hearing is Hearing.DEAF:
            log.error(
                "Nothing is heard from the broker; the service is not ready.",
                action="hearing.deaf",
                consumer=self._of,
                seconds=self._deaf_after,
            )
        elif self._vitals:
            self._vitals.give_up(Deaf(f"{self._of} has heard nothing from the broker for too long"))
