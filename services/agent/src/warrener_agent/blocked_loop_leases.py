"""The leases of an agent whose event loop is blocked. They are renewed from threads, by connections of their
own; if they cannot be, the process must end before they do.

Shares of a lease count from its last renewal. While the loop turns it renews at 0.7.
"""

import asyncio
import threading
from collections.abc import Sequence
from math import inf
from typing import Any, Final, NamedTuple

from warrener_agent.agent_context import AgentContext
from warrener_agent.executors.log_capture import find_log_capture
from warrener_agent.ledger import open_ledger
from warrener_agent.ledger.port import Claim, Ledger, LedgerUnavailable
from warrener_agent.run_table import STEP_MARGIN, Run
from warrener_runtime.logs import get_logger

_log = get_logger("agent.leases")

CHECK_SHARE: Final = 0.05
"""The share of a lease between two looks at the loop."""
_RENEW_SHARE: Final = 0.65
"""The share of a lease that is left when a blocked loop has missed its renewal."""
_END_SHARE: Final = 0.25
"""The share that is left when the process has to end, if nothing has renewed it."""
_STALLED_SHARE: Final = 0.15
"""The same, where no thread of Python runs."""
_GONE_SHARE: Final = 0.1
"""The share that is left when the process must be gone: clocks are not exact."""
_RETRY_SHARE: Final = 0.15
"""The share after which a renewal without an answer is tried again, by another connection."""
_MAX_PENDING: Final = 3
"""Renewals that wait for an answer at once."""
_CHECKS_BEFORE_END: Final = 2
"""The looks in a row in which a loop must not have turned before its process ends."""
_AFTER_FREEZE: Final = 1.0
"""Seconds that a loop has to turn after its process was stopped: it fences what it runs by itself."""


class LeaseState(NamedTuple):
    """One lease: seconds left, and whether its handler may be at work though the loop is blocked. `refused`:
    the ledger does not renew it."""

    left: float
    is_working: bool
    refused: bool = False


def is_due(leases: Sequence[LeaseState], lease: float) -> bool:
    """True if one must be renewed from outside the loop."""
    return any(not one.refused and one.left <= _RENEW_SHARE * lease for one in leases)


def must_end(leases: Sequence[LeaseState], lease: float) -> bool:
    """True if a handler is at work whose lease is nearly over. One that stands still takes no step then."""
    return any(one.is_working and one.left <= _END_SHARE * lease for one in leases)


class BlockedLoopLeases:
    """Looked at by the thread that watches the loop."""

    def __init__(self, agent: AgentContext) -> None:
        self._agent, self._lease = agent, agent.settings.agent_lease
        self._checked_at = inf
        self._silent_since = 0.0
        self._checks = 0
        self._patient_until = 0.0
        self._pending: set[object] = set()
        self._last_try_at = -inf
        self._refused: set[tuple[Claim, bool]] = set()
        self._is_logged = False
        self._working: list[Run] = []

    def check(self, *, turned: bool, task: asyncio.Task[Any] | None = None) -> bool:
        """Renew what is due, and return True if the process has to end now. `turned`: the loop has since the
        last look. `task`: what it is at."""
        now = self._agent.clock.monotonic()
        stopped = now - self._checked_at > _AFTER_FREEZE
        self._checked_at = now
        if turned:
            self._checks, self._silent_since, self._is_logged = 0, now, False
            self._refused, self._working = set(), []
            return False
        if stopped and self._patient_until < self._silent_since:  # once each time that it is silent
            self._patient_until = now + _AFTER_FREEZE
        self._checks += 1
        leases = self._leases(now, task)
        self._working = [run for run, state in leases if state.is_working]
        if is_due([state for _, state in leases], self._lease):
            self._start_renewal(now, leases)
        if self._checks < _CHECKS_BEFORE_END or now < self._patient_until:
            return False
        return must_end([state for _, state in leases], self._lease)

    def seconds_silent(self) -> float:
        """For how long the loop has not turned."""
        return self._agent.clock.monotonic() - self._silent_since

    def deadline(self) -> float:
        """The moment before which a thread of Python must have looked again."""
        now = self._agent.clock.monotonic()
        ends = [
            run.lease_expires_at
            for run in self._agent.running
            if not run.handler_ended and run.lease_expires_at - now >= STEP_MARGIN * self._lease
        ]
        return min([now + self._lease, *ends]) - _STALLED_SHARE * self._lease

    def time_to_end(self) -> float:
        """Seconds until the process must be gone, if nothing renews its leases."""
        end = min((run.lease_expires_at for run in self._working if not run.handler_ended), default=inf)
        return end - self._agent.clock.monotonic() - _GONE_SHARE * self._lease

    def _leases(self, now: float, task: asyncio.Task[Any] | None) -> list[tuple[Run, LeaseState]]:
        """All that run here. The coroutines but the one that blocks stand still, if that is known."""
        log_capture = None if task is None else find_log_capture(task)
        current = (
            None
            if log_capture is None
            else self._agent.running.get(Claim(log_capture.job_id, log_capture.attempt))
        )
        leases: list[tuple[Run, LeaseState]] = []
        for run in self._agent.running:
            is_working = not run.handler_ended and (run.is_off_loop or current is None or run is current)
            refused = (run.claim, is_working) in self._refused
            leases.append((run, LeaseState(run.lease_expires_at - now, is_working, refused)))
        return leases

    def _start_renewal(self, now: float, leases: list[tuple[Run, LeaseState]]) -> None:
        """In a thread of its own: a database that does not answer must not hold up who watches."""
        if self._pending and (
            now - self._last_try_at < _RETRY_SHARE * self._lease or len(self._pending) >= _MAX_PENDING
        ):
            return
        self._last_try_at, token = now, object()
        self._pending.add(token)
        threading.Thread(target=self._renew, args=(leases, token), name="lease renewal", daemon=True).start()

    def _renew(self, leases: list[tuple[Run, LeaseState]], token: object) -> None:
        try:
            asyncio.run(self._renew_by_own_connection(leases, token))
        except LedgerUnavailable as error:
            self._pending.discard(token)
            _log.warning(
                "The event loop is blocked, and its leases cannot be renewed from outside it: the ledger "
                "does not answer.",
                action="agent.blocked_renew_failed",
                error=str(error),
            )
        finally:
            self._pending.discard(token)

    async def _renew_by_own_connection(self, leases: list[tuple[Run, LeaseState]], token: object) -> None:
        ledger = open_ledger(self._agent.settings.ledger_url)
        try:
            await ledger.start()
            for is_working in (True, False):
                runs = [run for run, state in leases if state.is_working is is_working]
                if runs:
                    await self._extend(ledger, runs, is_working=is_working)
            self._pending.discard(token)
            self._log_renewed(leases)
        finally:
            await ledger.close()

    async def _extend(self, ledger: Ledger, runs: list[Run], *, is_working: bool) -> None:
        """What stands still gives way to an attempt that waits for it; what is at work cannot."""
        clock = self._agent.clock
        requested_at = clock.monotonic()
        renewal = await ledger.renew(
            [run.claim for run in runs],
            agent_id=self._agent.agent_id,
            lease=self._agent.lease,
            even_awaited=is_working,
        )
        for run in runs:
            if run.data.job_id in renewal.renewed:
                run.lease_expires_at = max(run.lease_expires_at, requested_at + self._lease)
                run.even_awaited = run.even_awaited or is_working
            elif run.data.job_id not in renewal.locked:
                self._refused.add((run.claim, is_working))

    def _log_renewed(self, leases: list[tuple[Run, LeaseState]]) -> None:
        """Once each time that the loop is blocked."""
        if self._is_logged:
            return
        self._is_logged = True
        blocking = [run for run, state in leases if state.is_working and not run.is_off_loop]
        known = blocking[0] if len(blocking) == 1 else None
        _log.warning(
            "The event loop is blocked; its leases are renewed from outside it. A handler that computes, or "
            'waits without await, needs executor="thread" or "process".',
            action="agent.blocked_renewed",
            seconds=round(self.seconds_silent(), 1),
            job_id=None if known is None else str(known.data.job_id),
            job_type=None if known is None else known.data.job_type,
            running=len(leases),
        )
