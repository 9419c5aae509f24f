"""The watchdog of the agent's event loop.

A coroutine that never awaits stops everything that the agent does, the renewal of its leases too. So a thread
renews them meanwhile (`leases.BlockedLoopLeases`), or ends the process before they are over; and a loop that
is blocked for good ends with its process. A call into C that keeps the interpreter's lock (a regular
expression that backtracks endlessly) stops that thread too: a small process beside the agent, and
`faulthandler`, which needs no lock, end the process then.

A loop that does not turn may also wait for a processor. That is nobody's fault in the agent, and a restart
costs more processor time than it brings, so such an agent takes fewer attempts instead.
"""

import asyncio
import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from warrener_agent import gil_stall_watcher
from warrener_agent.agent_context import AgentContext
from warrener_agent.decisions.errors import describe_blocked_loop
from warrener_agent.decisions.outcomes import FailedOutcome, failure_to_record
from warrener_agent.executors.flight_record import find_log_capture, record_in_agent, thread_stack
from warrener_agent.leases import CHECK_SHARE, BlockedLoopLeases
from warrener_agent.ledger import connected_ledger
from warrener_agent.ledger.port import Failure, LedgerUnavailable
from warrener_agent.run_table import RunTable
from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.lifecycle.run import ServiceExitCode
from warrener_runtime.logs import get_logger

_log = get_logger("agent.blocked")

SIGNAL: Final = signal.SIGVTALRM
_STDERR: Final = 2

_MIN_LEASES: Final = 2.0
"""Leases that must be over before a loop counts as blocked for good, whatever the setting says."""
_REPORT_TIMEOUT: Final = 10.0
"""Seconds that the report may take: it needs the disk and the ledger, and neither may keep the process."""
_MAX_NAMED: Final = 20  # other runs that the log names
_RESTART_INTERVAL: Final = 10.0  # seconds between two starts of the process beside the agent
_STARVED_SHARE: Final = 0.5
"""Share of the time for which a process has waited for a processor, from which it counts as starved."""
_LATE_CHECKS: Final = 2
"""Checks in a row in which a starved loop has not turned before the agent gives up slots."""
_GOOD_CHECKS: Final = 60  # checks in a row in which the loop has turned before it takes twice as many again


class LoopWatchdog(ManagedComponent):
    """Ends the process with exit code 71 when its event loop has not turned for `agent_block_timeout`, or
    sooner if its leases cannot be renewed meanwhile.

    A thread requests a sign of the loop, twenty times a lease. The thread needs nothing of the loop; while
    not even threads run, `GilStallTimer` takes over.
    """

    def __init__(self, agent: AgentContext, end_process: Callable[[int], Any]) -> None:
        super().__init__("watch over the loop")
        self._agent, self._end_process = agent, end_process
        self._limit = stall_limit(agent.settings.agent_block_timeout, agent.settings.agent_claim_ttl)
        self._pause = min(1.0, self._limit / 10, CHECK_SHARE * agent.settings.agent_claim_ttl)
        self._leases = BlockedLoopLeases(agent)
        self._stall_timer = GilStallTimer()
        self._leaving = threading.Event()
        self._watcher: threading.Thread | None = None
        self._has_turned = True

    async def _on_start(self) -> None:
        self._leaving = threading.Event()
        self._has_turned = True
        self._stall_timer.arm(self._leases.deadline())
        watched = asyncio.get_running_loop(), threading.get_ident(), self._leaving
        self._watcher = threading.Thread(target=self._watch, args=watched, name=self.name, daemon=True)
        self._watcher.start()

    async def _on_stop(self) -> None:
        self._leaving.set()
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            await asyncio.to_thread(watcher.join)

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int, leaving: threading.Event) -> None:
        detector = LoopStallDetector(self._limit, max_step=2 * min(1.0, self._limit / 10))
        limiter, wait, waited = SlotLimiter(self._agent.running), None, 0.0
        try:
            while not leaving.wait(self._pause):
                self._stall_timer.extend(self._leases.deadline())
                turned, task = self._has_turned, None
                if turned:
                    self._has_turned, wait, waited = False, None, 0.0
                    try:
                        loop.call_soon_threadsafe(self._note_turn)
                    except RuntimeError:  # the loop is closed
                        return
                else:
                    task = asyncio.current_task(loop)
                    wait = wait or gil_stall_watcher.ProcessorWait(os.getpid(), threading.get_native_id())
                    waited = wait.seconds()
                starved = wait is not None and wait.share >= _STARVED_SHARE
                limiter.check(turned=turned, starved=starved)
                blocked = detector.check(time.monotonic(), turned=turned, activity=task, waited=waited)
                if self._leases.check(turned=turned, task=task, starved=starved):
                    self._give_up(thread, task, "the leases of what runs cannot be renewed")
                    return
                if blocked:
                    self._give_up(thread, task, "blocked for too long")
                    return
        finally:
            self._stall_timer.disarm()

    def _note_turn(self) -> None:
        self._has_turned = True

    def _give_up(self, thread: int, task: asyncio.Task[Any] | None, reason: str) -> None:
        """Report why, and end before the leases do. The report has a thread of its own: the handler that
        blocks the loop may hold the log's lock too."""
        done, latest = threading.Event(), time.monotonic() + _REPORT_TIMEOUT

        def write_report() -> None:
            try:
                BlockedLoopReport(self._agent, thread, task, self._leases.seconds_silent(), reason).submit(
                    done.set
                )
            finally:
                done.set()

        try:
            threading.Thread(target=write_report, name="blocked loop report", daemon=True).start()
            while not done.wait(self._pause) and self._leases.time_to_end() > 0 and time.monotonic() < latest:
                self._stall_timer.extend(self._leases.deadline())
                self._leases.check(turned=False, task=task)
        finally:
            self._end_process(ServiceExitCode.BLOCKED)


def stall_limit(blocked_after: float, lease: float) -> float:
    """Return for how long the loop may stand still, if its leases can be renewed for so long."""
    return max(blocked_after, _MIN_LEASES * lease)


@dataclass(slots=True)
class LoopStallDetector:
    """Adds up the time for which the loop has not turned, as far as its watcher was awake to see it. Pure.

    `limit`: seconds until the loop counts as blocked. `max_step`: the maximum that one check adds, however
    long ago the last one was: a process that was frozen, or a machine that slept, saw nothing of its loop.
    The time in which the process waited for a processor does not count: it had nothing to turn with.
    While the activity of the loop changes, the loop is slow and not stuck.
    """

    limit: float
    max_step: float
    seconds: float = 0.0
    _activity: Any = None
    _checked_at: float | None = None

    def check(self, now: float, *, turned: bool, activity: Any = None, waited: float = 0.0) -> bool:
        """True if the loop is blocked. `turned`: True if it has turned since the last check. `activity`: the
        task that it runs. `waited`: seconds since then for which its process waited for a processor."""
        before, self._checked_at = self._checked_at, now
        if turned or before is None or activity is not self._activity:
            self.seconds, self._activity = 0.0, None if turned else activity
            return False
        self.seconds = max(0.0, self.seconds + min(now - before, self.max_step) - waited)
        return self.seconds >= self.limit


class SlotLimiter:
    """Halves the slots of an agent each time its starved loop is late, and doubles them while it turns."""

    def __init__(self, running: RunTable) -> None:
        self._running = running
        self._late = self._good = 0

    def check(self, *, turned: bool, starved: bool) -> None:
        self._late = 0 if turned or not starved else self._late + 1
        self._good = self._good + 1 if turned else 0
        running = self._running
        if self._late >= _LATE_CHECKS and running.allowed > 1:
            self._late, running.allowed = 0, running.allowed // 2
            _log.warning(
                "The machine gives this agent too little processor time: it takes fewer attempts at once.",
                action="agent.starved",
                slots=running.allowed,
            )
        elif self._good >= _GOOD_CHECKS and running.allowed < running.slots:
            self._good, running.allowed = 0, min(2 * running.allowed, running.slots)


class BlockedLoopReport:
    """Explains and charges the end of an agent whose loop `thread` has been stuck in `task` for `seconds`.

    Nothing of the loop is used. If the task belongs to an attempt that still runs, the ledger records the
    attempt as failed: its delivery comes back when this process is gone, and the next agent reports the
    failure instead of running the attempt again. `task` is None if the loop is in no task.
    """

    def __init__(
        self, agent: AgentContext, thread: int, task: asyncio.Task[Any] | None, seconds: float, reason: str
    ) -> None:
        self._agent, self._thread, self._task, self._seconds = agent, thread, task, seconds
        self._reason = reason
        self._log_capture = None if task is None else find_log_capture(task)
        self._run = None if self._log_capture is None else agent.running.get(self._log_capture.claim)

    def submit(self, on_recorded: Callable[[], None]) -> None:
        """Log the stacks of all threads, then record the failure. Calls `on_recorded` once that is done: the
        claim is free then, so the process must not live on."""
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
        own = {self._thread, threading.get_ident()}
        others = [thread_stack(id_) for one in threading.enumerate() if (id_ := one.ident) and id_ not in own]
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
            stacks="\n".join([*others, stuck]),
        )

    async def _charge(self, failure: Failure, on_recorded: Callable[[], None]) -> None:
        """Record the failure by a connection of its own: the agent's belongs to the loop."""
        try:
            async with connected_ledger(self._agent.settings.ledger_url) as ledger:
                recorded = await ledger.fail([failure], agent_id=self._agent.holder_id)
                if recorded:
                    on_recorded()
        except LedgerUnavailable as error:
            _log.warning(
                "The attempt that blocks the event loop could not be charged: the ledger does not answer.",
                action="agent.blocked_uncharged",
                error=str(error),
                job_id=str(failure.job_id),
                attempt=failure.attempt,
            )
            return
        if failure.job_id not in recorded:
            _log.warning(
                "The attempt that blocks the event loop was not charged: it belongs to another agent by now.",
                action="agent.blocked_fenced",
                job_id=str(failure.job_id),
                attempt=failure.attempt,
            )


class GilStallTimer:
    """Ends the process by SIGVTALRM, with the stacks of all threads on standard error, when the last deadline
    passes without being extended. The time in which the process is stopped, or waits for a processor, does
    not count."""

    def __init__(self) -> None:
        self._watch: subprocess.Popen[bytes] | None = None
        self._started_at = -_RESTART_INTERVAL

    def arm(self, deadline: float) -> None:
        """Start the timer. `deadline`: of `time.monotonic()`."""
        faulthandler.register(SIGNAL, _STDERR, chain=True)  # and then it ends, as by any unhandled signal
        self._start()
        self.extend(deadline)

    def extend(self, deadline: float) -> None:
        """Move the deadline: Python runs."""
        watch = self._watch
        if watch is None or watch.stdin is None:
            return
        try:
            os.write(watch.stdin.fileno(), gil_stall_watcher.DEADLINE.pack(deadline))
        except BlockingIOError:  # the process beside is stopped
            pass
        except OSError:
            self._restart(deadline)

    def disarm(self) -> None:
        """Stop the timer. May be called twice."""
        faulthandler.unregister(SIGNAL)
        self._close()

    def _start(self) -> None:
        self._started_at = time.monotonic()
        try:
            self._watch = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-I", "-S", gil_stall_watcher.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            _log.warning(
                "No process could be started beside the agent: a call into C that keeps the interpreter's "
                "lock will not be ended.",
                action="agent.gil_watch_unavailable",
                error=str(error),
            )
            return
        assert self._watch.stdin is not None
        os.set_blocking(self._watch.stdin.fileno(), False)

    def _restart(self, deadline: float) -> None:
        """Start the process beside the agent again after it was killed."""
        if time.monotonic() - self._started_at > _RESTART_INTERVAL:
            self._close()
            self._start()
            self.extend(deadline)

    def _close(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None and watch.stdin is not None:
            with suppress(OSError):
                watch.stdin.close()
            watch.wait()
