"""What is said about an attempt while it runs: that it started, and how far it is."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from warrener_agent.report import bundled
from warrener_agent.running import Run
from warrener_agent.workplace import Workplace
from warrener_contracts.letters import letter_for
from warrener_runtime.lifecycle import Managed

_PACE = 1.0
"""Seconds between two messages about the progress of one attempt."""


class ProgressLine(Managed):
    """Says what runs. Best effort: what gets lost here is told by the next heartbeat or the outcome."""

    def __init__(self, at: Workplace) -> None:
        super().__init__("progress")
        self._at = at
        self._tasks: set[asyncio.Task[None]] = set()

    async def announce_due(self) -> None:
        """Announce the attempts that have outlived the announcement delay."""
        now = self._at.clock.monotonic()
        due = [
            run
            for run in self._at.running
            if not run.announced and now - run.began >= self._at.settings.agent_announce_after
        ]
        if due:
            await self.announce(due)

    async def announce(self, runs: Sequence[Run]) -> None:
        """Say that these have started."""
        events = [
            self._at.speaker.started(self._at.entropy.new_id(), run.data, run.started_at, run.context)
            for run in runs
        ]
        for run in runs:
            run.announced = True
        await self._at.bus.publish(bundled(events))

    def of(self, run: Run) -> Callable[[float, str], None]:
        """Where a handler says how far it is: at once, and then the latest word once in a while."""
        latest: list[tuple[float, str]] = []

        def progress(fraction: float, note: str) -> None:
            latest[:] = [(fraction, note)]
            if len(latest) and not pacing():
                tell()

        pacer: list[asyncio.Task[None]] = []

        def pacing() -> bool:
            return bool(pacer) and not pacer[-1].done()

        def tell() -> None:
            pacer[:] = [asyncio.create_task(self._pace(run, latest))]
            self._tasks.add(pacer[0])
            pacer[0].add_done_callback(self._tasks.discard)

        return progress

    async def _pace(self, run: Run, latest: list[tuple[float, str]]) -> None:
        while latest and self._at.running.get(run.claim) is run:
            how_far = latest.pop()
            event = self._at.speaker.progressed(
                self._at.entropy.new_id(), run.data, self._at.clock.now(), run.context, how_far
            )
            run.announced = True
            await self._at.bus.publish([letter_for(event)])
            await self._at.clock.sleep(_PACE)

    async def _on_stop(self) -> None:
        for task in set(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
