"""Hold attempts back whose jobs may have ended unnoticed, until a supervisor has checked them.

The ledger refuses the attempts of an ended job if an agent that uses it has received the end. But a dispatch
may be older than the queue by which this agent receives ends. Or an attempt has ended its last agent, which
has another ledger, and no supervisor may have judged that yet.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any

from warrener_agent.agent_context import AgentContext
from warrener_agent.decisions.outcomes import StopCause
from warrener_agent.run_table import Run
from warrener_contracts.events import AttemptDispatched, AttemptsCheckedData
from warrener_runtime.clock import wait_at_most
from warrener_runtime.logs import get_logger

_log = get_logger("agent.start_gate")

_CLOCK_TOLERANCE = timedelta(seconds=1)
"""Difference of the clocks by which a dispatch and the binding of the control queue are dated."""
_REPEAT_INTERVAL = 0.5
_MAX_SILENCE = 10.0
"""Seconds without an answer after which attempts start: agents work on while no supervisor does."""
_MAX_WAIT = 30.0
"""Seconds after which an attempt starts though supervisors answer: its start waits in a backlog."""
_OPEN_TIME = 60.0  # seconds in which nothing is held back after a wait without any answer


class StartGate:
    """Holds attempts back. Heartbeats list them: one is sent at once and the next after its answer, so that a
    backlog costs one message a round trip."""

    def __init__(
        self,
        agent: AgentContext,
        send_heartbeat: Callable[[], Awaitable[None]],
        find_epoch: Callable[[], object],
    ) -> None:
        """`find_epoch` names a time in which ends arrive without a gap; None while they may be lost."""
        self._agent, self._send_heartbeat, self._find_epoch = agent, send_heartbeat, find_epoch
        self._released = asyncio.Event()
        self._answered_at = self._open_until = self._gap_ended_at = 0.0
        self._is_checking = False
        self._epoch: object = None
        self._bound_at = agent.clock.now()

    def holds(self, event: AttemptDispatched, *, resent: bool) -> bool:
        """True if the job's end may have been published before the control queue was bound. `resent`: an
        agent has sent the dispatch again, under a later time."""
        self._note_gap()
        return resent or (event.time is not None and event.time <= self._bound_at + _CLOCK_TOLERANCE)

    async def wait(self, run: Run, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        """Return when `run` may start or has to stop, or no supervisor has answered in time. An agent that
        no answer can reach gives the attempt back instead: supervisors may live."""
        self._note_gap()
        if run.stop is not None or self._agent.clock.monotonic() < self._open_until:
            return
        run.began_at = self._agent.clock.monotonic()  # its announcement may have waited for the broker
        run.held = asyncio.Event()
        run.halt = run.held.set
        if not self._is_checking:
            self._is_checking = True
            spawn(self._check())
        await run.held.wait()
        run.held = run.halt = None

    def note_supervisor(self) -> None:
        """Hold attempts back again: a supervisor works."""
        self._open_until = 0.0

    async def apply(self, data: AttemptsCheckedData) -> None:
        """Start or stop attempts by a supervisor's answer. After a LedgerUnavailable call it again: later
        attempts are not refused yet."""
        self._answered_at = self._agent.clock.monotonic()
        self.note_supervisor()
        may_start = {(one.job_id, one.attempt) for one in data.may_start}
        for run in self._held():
            if run.data.job_id in data.ended:
                run.request_stop(StopCause.CANCELLED, "its job had ended before it started")
            elif run.claim in may_start:
                _release(run)
        self._released.set()
        if data.ended:  # the ledger refuses later attempts too
            await self._agent.ledger.cancel(data.ended, now=self._agent.clock.now())

    def _note_gap(self) -> None:
        """Hold everything back again that was dispatched before the end of a gap."""
        if (epoch := self._find_epoch()) is None or epoch != self._epoch:
            self._epoch, self._bound_at = epoch, self._agent.clock.now()
            self._gap_ended_at, self._open_until = self._agent.clock.monotonic(), 0.0

    def _held(self) -> list[Run]:
        return [run for run in self._agent.running if run.is_held]

    async def _check(self) -> None:
        try:
            while held := self._held():
                self._released.clear()
                try:
                    await self._send_heartbeat()
                except Exception:  # noqa: BLE001 - without a check nobody would start them
                    _log.exception("A heartbeat could not be sent.", action="agent.check_failed")
                await wait_at_most(_REPEAT_INTERVAL, self._released, self._agent.clock)
                if all(run.is_held for run in held):  # not judged yet, or no answer
                    await self._agent.clock.sleep(_REPEAT_INTERVAL / 5)
                self._give_up(held)
        finally:
            self._is_checking = False

    def _give_up(self, held: list[Run]) -> None:
        now = self._agent.clock.monotonic()
        self._note_gap()
        for run in held:
            if self._epoch is None and now - run.began_at >= _MAX_WAIT:
                run.request_stop(StopCause.DRAINED, "its agent receives nothing from supervisors")
                continue
            began_at = max(run.began_at, self._gap_ended_at)
            silent = now - max(began_at, self._answered_at) >= _MAX_SILENCE
            if silent or now - began_at >= _MAX_WAIT:
                _release(run)
                if silent and self._open_until <= now:
                    self._open_until = now + _OPEN_TIME
                    _log.warning(
                        "No supervisor has checked the jobs of older dispatches; they start unchecked.",
                        action="agent.starts_unchecked",
                    )


def _release(run: Run) -> None:
    if run.held is not None:
        run.held.set()
