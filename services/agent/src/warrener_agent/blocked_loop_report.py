"""What is still done for an agent whose event loop is blocked: its end is explained and charged."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from warrener_agent.agent_context import AgentContext
from warrener_agent.executors.exit_info import describe_blocked_loop
from warrener_agent.executors.flight_recorder import record_in_agent
from warrener_agent.executors.log_capture import LogCapture, find_log_capture
from warrener_agent.executors.stacks import thread_stack
from warrener_agent.intake_decisions import failure_to_record
from warrener_agent.ledger import open_ledger
from warrener_agent.ledger.port import Claim, Failure, LedgerUnavailable
from warrener_agent.outcomes import FailedOutcome
from warrener_agent.run_table import Run
from warrener_runtime.logs import get_logger

_log = get_logger("agent.blocked")

_MAX_NAMED: Final = 20
"""So many of the runs beside it are named in the log."""


class BlockedLoopReport:
    """Of an agent whose loop `thread` is stuck in `task` since `seconds`; None where it is in no task.

    Nothing of the loop is used. The attempt to which the task belongs, if it still runs, is recorded in the
    ledger as failed: whoever gets its delivery next, which comes back when this process is gone, is told so
    and tells it, instead of running it again.
    """

    def __init__(
        self, agent: AgentContext, thread: int, task: asyncio.Task[Any] | None, seconds: float, reason: str
    ) -> None:
        self._agent, self._thread, self._task, self._seconds = agent, thread, task, seconds
        self._reason = reason
        self._log_capture = None if task is None else find_log_capture(task)
        self._run = _find_run(agent, self._log_capture)

    def submit(self, on_recorded: Callable[[], None]) -> None:
        """Log it, with the stacks of all threads; then record it. `on_recorded` is called once that is done:
        the claim is free then, so the process must not live on."""
        stuck = thread_stack(self._thread)
        self._log_blocked(stuck)
        if (run := self._run) is not None and self._log_capture is not None:
            failed = FailedOutcome(
                describe_blocked_loop(self._seconds, record_in_agent([stuck], self._log_capture)).error
            )
            failure = failure_to_record(run.claim, failed, run.started_at, self._agent.clock.now())
            asyncio.run(self._charge(failure, on_recorded))

    def _log_blocked(self, stuck: str) -> None:
        run = self._run
        beside = [str(one.data.job_id) for one in self._agent.running if one is not run]
        _log.error(
            "The event loop is blocked: this agent ends, so that a fresh process takes its place. A handler "
            'that computes, or waits without await, needs executor="thread" or "process".',
            action="agent.blocked",
            reason=self._reason,
            seconds=round(self._seconds, 1),
            job_id=None if run is None else str(run.data.job_id),
            job_type=None if run is None else run.data.job_type,
            attempt=None if run is None else run.data.attempt,
            task=None if self._task is None else self._task.get_name(),
            running_beside=beside[:_MAX_NAMED],
            stacks="\n".join([*self._other_stacks(), stuck]),
        )

    def _other_stacks(self) -> Iterator[str]:
        for one in threading.enumerate():
            if one.ident is not None and one.ident not in {self._thread, threading.get_ident()}:
                yield thread_stack(one.ident)

    async def _charge(self, failure: Failure, on_recorded: Callable[[], None]) -> None:
        """By a connection of its own: the agent's is used from the loop."""
        ledger = open_ledger(self._agent.settings.ledger_url)
        try:
            await ledger.start()
            recorded = await ledger.fail([failure], agent_id=self._agent.agent_id)
            if recorded:
                on_recorded()
        except LedgerUnavailable as error:
            _log.warning(
                "The attempt that blocks the event loop cannot be charged: the ledger does not answer.",
                action="agent.blocked_uncharged",
                error=str(error),
                job_id=str(failure.job_id),
                attempt=failure.attempt,
            )
            return
        finally:
            await ledger.close()
        if failure.job_id not in recorded:
            _log.warning(
                "The attempt that blocks the event loop is another agent's by now, and is not charged here.",
                action="agent.blocked_fenced",
                job_id=str(failure.job_id),
                attempt=failure.attempt,
            )


def _find_run(agent: AgentContext, log_capture: LogCapture | None) -> Run | None:
    """The attempt in whose context these are, if it runs here still."""
    return None if log_capture is None else agent.running.get(Claim(log_capture.job_id, log_capture.attempt))
