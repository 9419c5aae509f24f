"""perform: run granted attempts from their start to their reported end."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from warrener_agent.attempt import Attempt, Bench
from warrener_agent.checkpoints import CheckpointLine
from warrener_agent.deadlines import Deadlines
from warrener_agent.ending import unknown
from warrener_agent.executors.port import Executor
from warrener_agent.kinds import ExecutorName, JobKind
from warrener_agent.progress import ProgressLine
from warrener_agent.report import Reporter
from warrener_agent.running import Run, Stop
from warrener_agent.workplace import Workplace
from warrener_contracts.events import AttemptDispatchedData, ErrorInfo
from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.lifecycle.health_registry import current_health_registry
from warrener_runtime.telemetry import Telemetry

_RESERVE = 0.2
"""The share of the drain grace that is kept for giving back what does not end in time."""


class Performer(ManagedComponent):
    """Runs attempts, each handler in a task of its own, so that a lost channel cancels nothing.

    Drain waits for what runs, for most of the grace, or until somebody is in a hurry; the rest is stopped and
    given back, not charged.
    """

    def __init__(
        self,
        at: Workplace,
        kinds: Mapping[str, JobKind],
        executors: Mapping[ExecutorName, Executor],
        reporter: Reporter,
        progress: ProgressLine,
        *,
        checkpoints: CheckpointLine,
        telemetry: Telemetry,
    ) -> None:
        super().__init__("performer")
        self._at = at
        self._tasks: set[asyncio.Task[None]] = set()
        self._hurry = asyncio.Event()
        self._bench = Bench(
            at=at,
            kinds=kinds,
            executors=executors,
            reporter=reporter,
            progress=progress,
            checkpoints=checkpoints,
            telemetry=telemetry,
            deadlines=Deadlines(at.running, at.clock),
            spawn=self._spawn,
        )

    def knows(self, job_type: str) -> bool:
        """True if this agent has a handler for it."""
        return job_type in self._bench.kinds

    def unknown(self, data: AttemptDispatchedData) -> ErrorInfo:
        """Why an attempt of a job type without a handler cannot be run here."""
        return unknown(data, self._at.agent_id, sorted(self._bench.kinds))

    def begin(self, run: Run) -> None:
        """Run it; it is in the table from now on."""
        self._at.running.add(run)
        Attempt(self._bench, run).start()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="attempt")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _on_start(self) -> None:
        if vitals := current_health_registry.get():
            vitals.on_hurry(self._hurry.set)

    async def _on_drain(self) -> None:
        waiting = asyncio.create_task(self._at.running.empty())
        grace = asyncio.create_task(self._at.clock.sleep(self._at.settings.drain_grace * (1 - _RESERVE)))
        hurry = asyncio.create_task(self._hurry.wait())
        await asyncio.wait({waiting, grace, hurry}, return_when=asyncio.FIRST_COMPLETED)
        for run in self._at.running:
            run.ask_to_stop(Stop.DRAINED, "the agent ends")
        grace.cancel()
        hurry.cancel()
        await waiting

    async def _on_stop(self) -> None:
        attempts, self._bench.live = self._bench.live, set()
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        leaving = [asyncio.create_task(attempt.leave()) for attempt in attempts]
        if tasks or leaving:
            await asyncio.wait([*tasks, *leaving])
        self._bench.deadlines.close()
        for executor in self._bench.executors.values():
            await executor.close()
