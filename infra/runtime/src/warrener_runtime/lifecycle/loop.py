"""Work that is done again and again."""

import asyncio
from collections.abc import Awaitable, Callable

from warrener_runtime.backoff import ExponentialBackoff
from warrener_runtime.clock import Clock, SystemClock
from warrener_runtime.lifecycle.component import ManagedComponent, cancel, is_being_cancelled
from warrener_runtime.lifecycle.failure_streak import FailureStreak
from warrener_runtime.logs import get_logger

log = get_logger("lifecycle")

_UNTIL_TRUSTED = 0.5  # seconds between looks at a clock that is not trusted


class Loop(ManagedComponent):
    """Runs `body` every `every` seconds, from start to start, never catching up; or back to back (None).

    An error is logged and backed off, and the loop goes on; the same kind again and again is logged once,
    and with their number when they are over. Draining lets the current turn end. With
    `judges_time` it passes over its turns while its clock is not trusted.
    """

    def __init__(
        self,
        name: str,
        body: Callable[[], Awaitable[None]],
        *,
        every: float | None,
        clock: Clock | None = None,
        judges_time: bool = False,
    ) -> None:
        super().__init__(name)
        self._body = body
        self._judges_time = judges_time
        self._every = every
        self._clock = clock or SystemClock()
        self._backoff = ExponentialBackoff(ceiling=max(10.0, every or 0.0))
        self._streak = FailureStreak(log, loop=name)
        self._task: asyncio.Task[None] | None = None
        self._leaving = False
        self._resting = False

    async def _on_start(self) -> None:
        self._leaving = False
        self._task = asyncio.create_task(self._run(), name=self.name)

    async def _on_drain(self) -> None:
        self._leaving = True
        if self._task is None:
            return
        if self._resting:
            self._task.cancel()
        await asyncio.wait({self._task})

    async def _on_stop(self) -> None:
        self._leaving = True
        await cancel(self._task)
        self._task = None

    async def _run(self) -> None:
        while not self._leaving:
            if self._judges_time and not self._clock.trusted:
                await self._rest(_UNTIL_TRUSTED)
                continue
            began = self._clock.monotonic()
            delay = await self._turn()
            if delay is None:
                delay = max(0.0, began + self._every - self._clock.monotonic()) if self._every else 0.0
            await self._rest(delay)

    async def _turn(self) -> float | None:
        """One turn; the seconds to back off, or None if it went well."""
        try:
            await self._body()
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                raise
            delay = self._backoff.failed()
            self._streak.failed(
                error,
                "A turn of a loop failed; it goes on after a pause.",
                self._clock.monotonic(),
                action="loop.turn_failed",
                pause=delay,
            )
            return delay
        self._backoff.succeeded()
        self._streak.recovered(
            "The turns of a loop go well again.", self._clock.monotonic(), action="loop.recovered"
        )
        return None

    async def _rest(self, seconds: float) -> None:
        """Wait; others always get a turn."""
        if self._leaving:
            return
        self._resting = True
        try:
            await self._clock.sleep(seconds)
        finally:
            self._resting = False
