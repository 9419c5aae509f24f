"""The watch over the agent's event loop: no handler that blocks it goes on when its lease is over, and a loop
that is blocked for good ends with its process.

A coroutine that never awaits stops everything that the agent does, the renewal of its leases too. So a thread
renews them meanwhile, or ends the process before they are over.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from warrener_agent.agent_context import AgentContext
from warrener_agent.blocked_loop_leases import CHECK_SHARE, BlockedLoopLeases
from warrener_agent.blocked_loop_report import BlockedLoopReport
from warrener_agent.gil_stall_timer import GilStallTimer
from warrener_agent.loop_stall_detector import LoopStallDetector
from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.lifecycle.runner import ServiceExitCode

_REPORT_TIMEOUT: Final = 10.0
"""Seconds that the last deed may take at most: it needs the disk and the ledger, and neither may keep the
process."""

_MIN_LEASES: Final = 2.0
"""No loop is called blocked for good before this many leases are over, whatever the setting says."""


class LoopWatchdog(ManagedComponent):
    """Has the process ended with exit code 71 when its event loop has not turned for `agent_blocked_after`,
    or sooner where the leases of what it runs cannot be renewed meanwhile.

    A thread asks the loop for a sign, twenty times a lease. It needs nothing of the loop, so it works while
    that does not; where even threads do not, `GilStallTimer` takes over.
    """

    def __init__(self, agent: AgentContext, end_process: Callable[[int], Any]) -> None:
        super().__init__("watch over the loop")
        self._agent, self._end_process = agent, end_process
        self._limit = stall_limit(agent.settings.agent_blocked_after, agent.settings.agent_lease)
        self._pause = min(1.0, self._limit / 10, CHECK_SHARE * agent.settings.agent_lease)
        self._leases = BlockedLoopLeases(agent)
        self._stall_timer = GilStallTimer()
        self._leaving = threading.Event()
        self._watcher: threading.Thread | None = None
        self._has_turned = True

    async def _on_start(self) -> None:
        self._leaving = threading.Event()
        self._has_turned = True
        self._stall_timer.arm(self._leases.deadline())
        loop, thread = asyncio.get_running_loop(), threading.get_ident()
        self._watcher = threading.Thread(
            target=self._watch, args=(loop, thread, self._leaving), name=self.name, daemon=True
        )
        self._watcher.start()

    async def _on_stop(self) -> None:
        self._leaving.set()
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            await asyncio.to_thread(watcher.join)

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int, leaving: threading.Event) -> None:
        detector = LoopStallDetector(self._limit, max_step=2 * min(1.0, self._limit / 10))
        try:
            while not leaving.wait(self._pause):
                self._stall_timer.extend(self._leases.deadline())
                turned, task = self._has_turned, None
                if turned:
                    self._has_turned = False
                    try:
                        loop.call_soon_threadsafe(self._note_turn)
                    except RuntimeError:  # the loop is closed
                        return
                else:
                    task = asyncio.current_task(loop)
                blocked = detector.check(time.monotonic(), turned=turned, activity=task)
                if self._leases.check(turned=turned, task=task):
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
        """Say why, and end before the leases do. In a thread of its own: whoever blocks the loop may hold the
        log's lock too."""
        done, latest = threading.Event(), time.monotonic() + _REPORT_TIMEOUT

        def write_report() -> None:
            try:
                BlockedLoopReport(self._agent, thread, task, self._leases.seconds_silent(), reason).submit(
                    done.set
                )
            finally:
                done.set()

        try:
            threading.Thread(target=write_report, name="last deed", daemon=True).start()
            while not done.wait(self._pause) and self._leases.time_to_end() > 0 and time.monotonic() < latest:
                self._stall_timer.extend(self._leases.deadline())
                self._leases.check(turned=False, task=task)
        finally:
            self._end_process(ServiceExitCode.BLOCKED)


def stall_limit(blocked_after: float, lease: float) -> float:
    """For how long the loop may stand still, where its leases can be renewed for so long."""
    return max(blocked_after, _MIN_LEASES * lease)
