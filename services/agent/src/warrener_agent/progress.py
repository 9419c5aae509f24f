"""What is said about an attempt while it runs: that it started, and how far it is."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from contextvars import Context

from warrener_agent.agent_context import AgentContext
from warrener_agent.run_table import Run
from warrener_agent.status_events import ProgressValue
from warrener_contracts.messages import batch_messages, build_message
from warrener_runtime.lifecycle import ManagedComponent

_PUBLISH_INTERVAL = 1.0
"""Seconds between two messages about the progress of one attempt."""


class ProgressPublisher(ManagedComponent):
    """Says what runs. Best effort: what gets lost here is told by the next heartbeat or the outcome."""

    def __init__(self, agent: AgentContext) -> None:
        super().__init__("progress")
        self._agent = agent
        self._tasks: set[asyncio.Task[None]] = set()

    async def announce_due(self) -> None:
        """Announce the attempts that have outlived the announcement delay. What was taken over has said so
        before it began."""
        now = self._agent.clock.monotonic()
        due = [
            run
            for run in self._agent.running
            if not run.announced and now - run.began_at >= self._agent.settings.agent_announce_after
        ]
        if due:
            await self.announce(due)

    async def announce(self, runs: Sequence[Run]) -> None:
        """Say that these have started."""
        events = [
            self._agent.event_factory.started(
                self._agent.entropy.new_id(), run.data, run.started_at, run.context
            )
            for run in runs
        ]
        for run in runs:
            run.announced = True
        await self._agent.bus.publish(batch_messages(map(build_message, events)))

    def of(self, run: Run) -> "Progress":
        """Where the handler of `run` says how far it is."""
        return Progress(self, run)

    def start_publishing(self, progress: "Progress") -> None:
        """Tell the latest word now, and again once in a while as long as there is a newer one."""
        # Not in the handler's context: it would end with the tasks of the attempt.
        task = asyncio.create_task(self._publish_updates(progress), name="progress", context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _publish_updates(self, progress: "Progress") -> None:
        run = progress.run
        while (progress_value := progress.take()) is not None and self._agent.running.get(run.claim) is run:
            event = self._agent.event_factory.progressed(
                self._agent.entropy.new_id(), run.data, self._agent.clock.now(), run.context, progress_value
            )
            run.announced = True
            await self._agent.bus.publish([build_message(event)])
            await self._agent.clock.sleep(_PUBLISH_INTERVAL)

    async def _on_stop(self) -> None:
        for task in set(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


class Progress:
    """How far one attempt is. Called by the handler as often as it likes; the latest word counts."""

    __slots__ = ("_followed", "_latest", "_publisher", "run")

    def __init__(self, publisher: ProgressPublisher, run: Run) -> None:
        self.run = run
        self._publisher = publisher
        self._latest: ProgressValue | None = None
        self._followed = False

    def __call__(self, fraction: float, note: str) -> None:
        self._latest = (fraction, note)
        if not self._followed:
            self._followed = True
            self._publisher.start_publishing(self)

    def take(self) -> ProgressValue | None:
        """The latest word, if it was not taken yet; after None it has to be followed again."""
        latest, self._latest = self._latest, None
        self._followed = latest is not None
        return latest
