"""perform: run granted attempts from their start to their reported end."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from warrener_agent.agent_context import AgentContext
from warrener_agent.attempt import Attempt, AttemptServices
from warrener_agent.attempt_outcomes import unknown_job_type_error
from warrener_agent.checkpoints import CheckpointSaver
from warrener_agent.deadlines import Deadlines
from warrener_agent.executors.port import Executor
from warrener_agent.job_definitions import ExecutorName, JobDefinition
from warrener_agent.progress import ProgressPublisher
from warrener_agent.report import Reporter
from warrener_agent.run_table import Run, StopCause
from warrener_contracts.events import AttemptDispatchedData, ErrorInfo
from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.lifecycle.health_registry import current_health_registry
from warrener_runtime.telemetry import Telemetry

_RESERVE = 0.2
"""The share of the drain grace that is kept for giving back what does not end in time."""


class AttemptRunner(ManagedComponent):
    """Runs attempts, each handler in a task of its own, so that a lost channel cancels nothing.

    Drain waits for what runs, for most of the grace, or until somebody is in a hurry; the rest is stopped and
    given back, not charged.
    """

    def __init__(
        self,
        agent: AgentContext,
        definitions: Mapping[str, JobDefinition],
        executors: Mapping[ExecutorName, Executor],
        reporter: Reporter,
        progress: ProgressPublisher,
        *,
        checkpoints: CheckpointSaver,
        telemetry: Telemetry,
    ) -> None:
        super().__init__("performer")
        self._agent = agent
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_hurried = asyncio.Event()
        self._services = AttemptServices(
            agent=agent,
            definitions=definitions,
            executors=executors,
            reporter=reporter,
            progress=progress,
            checkpoints=checkpoints,
            telemetry=telemetry,
            deadlines=Deadlines(agent.running, agent.clock),
            spawn=self._spawn,
        )

    def knows(self, job_type: str) -> bool:
        """True if this agent has a handler for it."""
        return job_type in self._services.definitions

    def unknown_job_type_error(self, data: AttemptDispatchedData) -> ErrorInfo:
        """Why an attempt of a job type without a handler cannot be run here."""
        return unknown_job_type_error(data, self._agent.agent_id, sorted(self._services.definitions))

    def begin(self, run: Run) -> None:
        """Run it; it is in the table from now on."""
        self._agent.running.add(run)
        Attempt(self._services, run).start()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="attempt")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _on_start(self) -> None:
        if vitals := current_health_registry.get():
            vitals.on_hurry(self._is_hurried.set)

    async def _on_drain(self) -> None:
        waiting = asyncio.create_task(self._agent.running.empty())
        grace = asyncio.create_task(
            self._agent.clock.sleep(self._agent.settings.drain_grace * (1 - _RESERVE))
        )
        hurry = asyncio.create_task(self._is_hurried.wait())
        await asyncio.wait({waiting, grace, hurry}, return_when=asyncio.FIRST_COMPLETED)
        for run in self._agent.running:
            run.request_stop(StopCause.DRAINED, "the agent ends")
        grace.cancel()
        hurry.cancel()
        await waiting

    async def _on_stop(self) -> None:
        attempts, self._services.live = self._services.live, set()
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        leaving = [asyncio.create_task(attempt.leave()) for attempt in attempts]
        if tasks or leaving:
            await asyncio.wait([*tasks, *leaving])
        self._services.deadlines.close()
        for executor in self._services.executors.values():
            await executor.close()
