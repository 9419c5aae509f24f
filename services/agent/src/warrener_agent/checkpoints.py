"""What handlers save of their state: in the ledger first, then told, so that agents elsewhere find it too."""

import asyncio
from collections.abc import Mapping

from warrener_agent.agent_context import AgentContext
from warrener_agent.ledger.checkpoints import SavedCheckpoint
from warrener_agent.ledger.port import LedgerUnavailable
from warrener_agent.run_table import Run
from warrener_contracts.messages import batch_messages, build_message
from warrener_runtime.logs import get_logger

_log = get_logger("agent.checkpoints")

SAVE_INTERVAL = 1.0
"""Seconds between two saves; of what a handler saves in between, the last counts."""


class CheckpointSaver:
    """Saves what came since the last time, in one statement for all attempts.

    What stands in the ledger survives this agent. What is told besides is best effort: an agent that does not
    share the ledger finds what had been told when its attempt was dispatched.
    """

    def __init__(self, agent: AgentContext) -> None:
        self._agent = agent
        self._waiting: dict[Run, str] = {}
        self._being_saved: dict[Run, str] = {}
        self._saving = asyncio.Lock()

    def put(self, run: Run, state_text: str) -> None:
        """Save it soon; what waits of the same attempt is not worth saving any more."""
        self._waiting[run] = state_text

    def has_unsaved(self, run: Run) -> bool:
        """Whether something of it was not saved yet; what is being saved just now was not."""
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
        """Save what waits of one attempt that is about to end, after what is on its way; it gives up where
        the ledger is away."""
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
                list(saves.values()), agent_id=self._agent.agent_id, now=now
            )
        except LedgerUnavailable as error:
            self._waiting = {**states, **self._waiting}  # what came meanwhile is newer
            _log.warning(
                "Checkpoints cannot be saved: the ledger does not answer.",
                action="agent.checkpoint_failed",
                error=str(error),
                waiting=len(states),
            )
            return
        accepted = {run: saved for run, saved in saves.items() if saved.job_id in saved_jobs}
        for run, saved in accepted.items():
            run.checkpoints = saved.number
        entropy, event_factory = self._agent.entropy, self._agent.event_factory
        events = [
            event_factory.checkpointed(entropy.new_id(), run.data, now, run.context, saved)
            for run, saved in accepted.items()
        ]
        for run in accepted:
            run.announced = True  # a supervisor that hears of it knows that it runs
        if events:
            await self._agent.bus.publish(batch_messages(map(build_message, events)))
