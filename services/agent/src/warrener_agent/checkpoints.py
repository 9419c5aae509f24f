"""What handlers save of their state: in the ledger first, then told, so that agents elsewhere find it too."""

import asyncio
from collections.abc import Mapping

from warrener_agent.ledger.checkpoints import Saved
from warrener_agent.ledger.port import LedgerUnavailable
from warrener_agent.running import Run
from warrener_agent.workplace import Workplace
from warrener_contracts.messages import batch_messages, build_message
from warrener_runtime.logs import get_logger

_log = get_logger("agent.checkpoints")

PACE = 1.0
"""Seconds between two saves; of what a handler saves in between, the last counts."""


class CheckpointLine:
    """Saves what came since the last time, in one statement for all attempts.

    What stands in the ledger survives this agent. What is told besides is best effort: an agent that does not
    share the ledger finds what had been told when its attempt was dispatched.
    """

    def __init__(self, at: Workplace) -> None:
        self._at = at
        self._waiting: dict[Run, str] = {}
        self._on_its_way: dict[Run, str] = {}
        self._saving = asyncio.Lock()

    def put(self, run: Run, state_text: str) -> None:
        """Save it soon; what waits of the same attempt is not worth saving any more."""
        self._waiting[run] = state_text

    def waits(self, run: Run) -> bool:
        """Whether something of it was not saved yet; what is being saved just now was not."""
        return run in self._waiting or run in self._on_its_way

    async def save_due(self) -> None:
        """Save all that waits."""
        async with self._saving:
            waiting, self._waiting = self._waiting, {}
            live = {run: text for run, text in waiting.items() if self._at.running.get(run.claim) is run}
            if live:
                self._on_its_way = live
                try:
                    await self._save(live)
                finally:
                    self._on_its_way = {}

    async def flush(self, run: Run) -> None:
        """Save what waits of one attempt that is about to end, after what is on its way; it gives up where
        the ledger is away."""
        async with self._saving:
            if (text := self._waiting.pop(run, None)) is not None:
                await self._save({run: text})
                self._waiting.pop(run, None)

    async def _save(self, states: Mapping[Run, str]) -> None:
        asked = {
            run: Saved(run.data.job_id, run.data.attempt, run.checkpoints + 1, text)
            for run, text in states.items()
        }
        now = self._at.clock.now()
        try:
            kept = await self._at.ledger.save_checkpoints(
                list(asked.values()), agent_id=self._at.agent_id, now=now
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
        told = {run: saved for run, saved in asked.items() if saved.job_id in kept}
        for run, saved in told.items():
            run.checkpoints = saved.number
        entropy, speaker = self._at.entropy, self._at.speaker
        events = [
            speaker.checkpointed(entropy.new_id(), run.data, now, run.context, saved)
            for run, saved in told.items()
        ]
        for run in told:
            run.announced = True  # a supervisor that hears of it knows that it runs
        if events:
            await self._at.bus.publish(batch_messages(map(build_message, events)))
