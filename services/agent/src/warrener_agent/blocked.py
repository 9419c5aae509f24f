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

from warrener_agent.blocked_leases import LOOK, BlockedLeases
from warrener_agent.last_deed import LastDeed
from warrener_agent.seizure import SeizureAlarm
from warrener_agent.standstill import Standstill
from warrener_agent.workplace import Workplace
from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.lifecycle.runner import ServiceExitCode

_PATIENCE: Final = 10.0
"""Seconds that the last deed may take at most: it needs the disk and the ledger, and neither may keep the
process."""

_LEASES: Final = 2.0
"""No loop is called blocked for good before this many leases are over, whatever the setting says."""


class BlockedWatch(ManagedComponent):
    """Has the process ended with exit code 71 when its event loop has not turned for `agent_blocked_after`,
    or sooner where the leases of what it runs cannot be renewed meanwhile.

    A thread asks the loop for a sign, twenty times a lease. It needs nothing of the loop, so it works while
    that does not; where even threads do not, `SeizureAlarm` takes over.
    """

    def __init__(self, at: Workplace, end_process: Callable[[int], Any]) -> None:
        super().__init__("watch over the loop")
        self._at, self._end_process = at, end_process
        self._limit = limit_of(at.settings.agent_blocked_after, at.settings.agent_lease)
        self._pause = min(1.0, self._limit / 10, LOOK * at.settings.agent_lease)
        self._leases = BlockedLeases(at)
        self._alarm = SeizureAlarm()
        self._leaving = threading.Event()
        self._watcher: threading.Thread | None = None
        self._answered = True

    async def _on_start(self) -> None:
        self._leaving = threading.Event()
        self._answered = True
        self._alarm.arm(self._leases.deadline())
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
        standstill = Standstill(self._limit, at_most=2 * min(1.0, self._limit / 10))
        try:
            while not leaving.wait(self._pause):
                self._alarm.put_off(self._leases.deadline())
                turned, task = self._answered, None
                if turned:
                    self._answered = False
                    try:
                        loop.call_soon_threadsafe(self._answer)
                    except RuntimeError:  # the loop is closed
                        return
                else:
                    task = asyncio.current_task(loop)
                blocked = standstill.look(time.monotonic(), turned=turned, doing=task)
                if self._leases.look(turned=turned, task=task):
                    self._give_up(thread, task, "the leases of what runs cannot be renewed")
                    return
                if blocked:
                    self._give_up(thread, task, "blocked for too long")
                    return
        finally:
            self._alarm.disarm()

    def _answer(self) -> None:
        self._answered = True

    def _give_up(self, thread: int, task: asyncio.Task[Any] | None, reason: str) -> None:
        """Say why, and end before the leases do. In a thread of its own: whoever blocks the loop may hold the
        log's lock too."""
        over, latest = threading.Event(), time.monotonic() + _PATIENCE

        def say_why() -> None:
            try:
                LastDeed(self._at, thread, task, self._leases.seconds_silent(), reason).do(over.set)
            finally:
                over.set()

        try:
            threading.Thread(target=say_why, name="last deed", daemon=True).start()
            while not over.wait(self._pause) and self._leases.time_to_end() > 0 and time.monotonic() < latest:
                self._alarm.put_off(self._leases.deadline())
                self._leases.look(turned=False, task=task)
        finally:
            self._end_process(ServiceExitCode.BLOCKED)


def limit_of(blocked_after: float, lease: float) -> float:
    """For how long the loop may stand still, where its leases can be renewed for so long."""
    return max(blocked_after, _LEASES * lease)
