"""When attempts have run, or been silent, for too long: one watch over all of them."""

import asyncio
from math import inf

from warrener_agent.run_table import Run, RunTable
from warrener_runtime.clock import Clock

_SOON = 0.001
"""Seconds for which it is not worth to sleep again."""


class Deadlines:
    """Interrupts each run when its time is over. There is one sleep, until the earliest of them."""

    def __init__(self, running: RunTable, clock: Clock) -> None:
        self._running, self._clock = running, clock
        self._sleeper: asyncio.Task[None] | None = None
        self._until = inf

    def watch(self, run: Run, timeout_at: float) -> None:
        """Interrupt `run` at this monotonic moment, if it is still in the table of what runs."""
        run.timeout_at = timeout_at
        if timeout_at < self._until:
            self.close()
            self._until = timeout_at
            self._sleeper = asyncio.create_task(self._sleep(), name="deadlines")

    def close(self) -> None:
        """Interrupt nobody any more."""
        if self._sleeper is not None:
            self._sleeper.cancel()
        self._sleeper, self._until = None, inf

    async def _sleep(self) -> None:
        while self._until < inf:
            await self._clock.sleep(max(0.0, self._until - self._clock.monotonic()))
            self._interrupt_due()
            self._until = min((run.timeout_at for run in self._running), default=inf)

    def _interrupt_due(self) -> None:
        now = self._clock.monotonic() + _SOON
        for run in self._running:
            if run.timeout_at > now:
                continue
            if run.heartbeat is not None and run.heartbeat.due > now:  # it was heard of meanwhile
                run.timeout_at = run.heartbeat.due
            else:
                run.timeout_at = inf
                run.interrupt()
