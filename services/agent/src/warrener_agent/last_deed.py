"""What is still done for an agent whose event loop is blocked: its end is explained and charged."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from warrener_agent.decide_receipt import failure_to_record
from warrener_agent.executors.death import kept_the_loop
from warrener_agent.executors.flight import in_the_agent
from warrener_agent.executors.last_words import Words, words_of
from warrener_agent.executors.stacks import thread_stack
from warrener_agent.ledger import open_ledger
from warrener_agent.ledger.port import Claim, Failure, LedgerUnavailable
from warrener_agent.outcomes import Failed
from warrener_agent.running import Run
from warrener_agent.workplace import Workplace
from warrener_runtime.logs import get_logger

_log = get_logger("agent.blocked")

_MOST: Final = 20
"""So many of the runs beside it are named in the log."""


class LastDeed:
    """Of an agent whose loop `thread` is stuck in `task` since `seconds`; None where it is in no task.

    Nothing of the loop is used. The attempt to which the task belongs, if it still runs, is recorded in the
    ledger as failed: whoever gets its delivery next, which comes back when this process is gone, is told so
    and tells it, instead of running it again.
    """

    def __init__(
        self, at: Workplace, thread: int, task: asyncio.Task[Any] | None, seconds: float, reason: str
    ) -> None:
        self._at, self._thread, self._task, self._seconds = at, thread, task, seconds
        self._reason = reason
        self._words = None if task is None else words_of(task)
        self._run = _run_of(at, self._words)

    def do(self, recorded: Callable[[], None]) -> None:
        """Log it, with the stacks of all threads; then record it. `recorded` is called once that is done: the
        claim is free then, so the process must not live on."""
        stuck = thread_stack(self._thread)
        self._say(stuck)
        if (run := self._run) is not None and self._words is not None:
            failed = Failed(kept_the_loop(self._seconds, in_the_agent([stuck], self._words)).error)
            failure = failure_to_record(run.claim, failed, run.started_at, self._at.clock.now())
            asyncio.run(self._charge(failure, recorded))

    def _say(self, stuck: str) -> None:
        run = self._run
        beside = [str(one.data.job_id) for one in self._at.running if one is not run]
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
            running_beside=beside[:_MOST],
            stacks="\n".join([*self._other_stacks(), stuck]),
        )

    def _other_stacks(self) -> Iterator[str]:
        for one in threading.enumerate():
            if one.ident is not None and one.ident not in {self._thread, threading.get_ident()}:
                yield thread_stack(one.ident)

    async def _charge(self, failure: Failure, told: Callable[[], None]) -> None:
        """By a connection of its own: the agent's is used from the loop."""
        ledger = open_ledger(self._at.settings.ledger_url)
        try:
            await ledger.start()
            recorded = await ledger.fail([failure], agent_id=self._at.agent_id)
            if recorded:
                told()
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


def _run_of(at: Workplace, words: Words | None) -> Run | None:
    """The attempt in whose context these are, if it runs here still."""
    return None if words is None else at.running.get(Claim(words.job_id, words.attempt))
