"""Publish the starts, progress and checkpoints of running attempts."""

import asyncio
from collections.abc import Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass

from warrener_agent.agent_context import AgentContext
from warrener_agent.ledger.port import LedgerUnavailable, SavedCheckpoint
from warrener_agent.run_table import Run
from warrener_agent.secret_values import hide_texts
from warrener_agent.status_events import ProgressValue
from warrener_contracts.messages import batch_messages, build_message
from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.lifecycle.components import cancel
from warrener_runtime.logs import get_logger

_log = get_logger("agent.checkpoints")

SAVE_INTERVAL = 1.0  # seconds between two saves of checkpoints; of several in between, the last counts
_PUBLISH_INTERVAL = 1.0  # seconds between two messages about the progress of one attempt


class ProgressPublisher(ManagedComponent):
    """Publishes which attempts run, and how far they are.

    Best effort: the next heartbeat or the outcome makes up for a lost message.
    """

    def __init__(self, agent: AgentContext) -> None:
        super().__init__("progress")
        self._agent = agent
        self._tasks: set[asyncio.Task[None]] = set()

    async def announce_due(self) -> None:
        """Announce the attempts that outlived the announcement delay and are not announced yet."""
        now, delay = self._agent.clock.monotonic(), self._agent.settings.agent_announce_delay
        due = [run for run in self._agent.running if not run.announced and run.outlives(delay, now)]
        if due:
            await self.announce(due)

    async def announce(self, runs: Sequence[Run]) -> None:
        events = [self._agent.event_factory.started(run) for run in runs]
        for run in runs:
            run.announced = True
        await self._agent.bus.publish(batch_messages(map(build_message, events)))

    def start_publishing(self, progress: "Progress") -> None:
        """Publish the latest value now, and once an interval for as long as there is a newer one."""
        # Not in the handler's context: the task would end with the tasks of the attempt.
        task = asyncio.create_task(self._publish_updates(progress), name="progress", context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _publish_updates(self, progress: "Progress") -> None:
        run = progress.run
        while (progress_value := progress.take()) is not None and self._agent.running.get(run.claim) is run:
            event = self._agent.event_factory.progressed(run, self._agent.clock.now(), progress_value)
            run.announced = True
            await self._agent.bus.publish([build_message(event)])
            await self._agent.clock.sleep(_PUBLISH_INTERVAL)

    async def _on_stop(self) -> None:
        for task in set(self._tasks):
            await cancel(task)


@dataclass(eq=False, slots=True)
class Progress:
    """The progress of one attempt. The handler calls it as often as it likes; the latest value counts, and
    its note quotes no marked argument."""

    _publisher: ProgressPublisher
    run: Run
    _secrets: tuple[str, ...] = ()
    _latest: ProgressValue | None = None
    _followed: bool = False

    def __call__(self, fraction: float, note: str) -> None:
        self._latest = (fraction, note)
        if not self._followed:
            self._followed = True
            self._publisher.start_publishing(self)

    def take(self) -> ProgressValue | None:
        """Return the latest value, unless it was taken; after None publishing has to be started again."""
        latest, self._latest = self._latest, None
        self._followed = latest is not None
        if latest is None or not self._secrets:
            return latest
        return latest[0], hide_texts(latest[1], self._secrets)


class CheckpointSaver:
    """Saves the checkpoints that came since the last time, in one statement for all attempts.

    A checkpoint in the ledger survives this agent. Publishing it is best effort: an agent that does not share
    the ledger finds the checkpoint that was published before its attempt was dispatched.
    """

    def __init__(self, agent: AgentContext) -> None:
        self._agent = agent
        self._waiting: dict[Run, str] = {}
        self._being_saved: dict[Run, str] = {}
        self._saving = asyncio.Lock()

    def put(self, run: Run, state_text: str) -> None:
        """Save the state soon, in place of one of the same attempt that still waits."""
        self._waiting[run] = state_text

    def has_unsaved(self, run: Run) -> bool:
        """True if a state of this attempt is not saved yet, or is being saved at this moment."""
        return run in self._waiting or run in self._being_saved

    async def save_due(self) -> None:
        """Save all that waits."""
        async with self._saving:
            waiting, self._waiting = self._waiting, {}
            live = {run: text for run, text in waiting.items() if self._agent.running.get(run.claim) is run}
            if live:
                self._being_saved = live
                try:
                    await self._save(live)
                finally:
                    self._being_saved = {}

    async def flush(self, run: Run) -> None:
        """Save the state of an attempt that ends, after any save in progress, unless the ledger is away."""
        async with self._saving:
            if (text := self._waiting.pop(run, None)) is not None:
                await self._save({run: text})
                self._waiting.pop(run, None)

    async def _save(self, states: Mapping[Run, str]) -> None:
        saves = {
            run: SavedCheckpoint(run.data.job_id, run.data.attempt, run.checkpoints + 1, text)
            for run, text in states.items()
        }
        now = self._agent.clock.now()
        try:
            saved_jobs = await self._agent.ledger.save_checkpoints(
                list(saves.values()), agent_id=self._agent.holder_id, now=now
            )
        except LedgerUnavailable as error:
            self._waiting = {**states, **self._waiting}  # a state that came meanwhile is newer
            _log.warning(
                "Checkpoints could not be saved: the ledger does not answer.",
                action="agent.checkpoint_failed",
                error=str(error),
                waiting=len(states),
            )
            return
        accepted = {run: saved for run, saved in saves.items() if saved.job_id in saved_jobs}
        for run, saved in accepted.items():
            run.checkpoints = saved.number
        events = [self._agent.event_factory.checkpointed(run, now, saved) for run, saved in accepted.items()]
        for run in accepted:
            run.announced = True  # the event says that it runs
        if events:
            await self._agent.bus.publish(batch_messages(map(build_message, events)))
