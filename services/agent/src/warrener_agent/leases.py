"""The leases of running attempts: renewed by the event loop, or by threads while the loop is blocked.

A handler is stopped before another agent may take its claim. While the loop is blocked, threads renew the
leases by connections of their own; if they cannot, the process must end before the leases do. The shares of
a lease below count from its last renewal; the loop renews at 0.7.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from math import inf
from typing import Any, Final, NamedTuple

from warrener_agent.agent_context import AgentContext
from warrener_agent.decisions.outcomes import StopCause
from warrener_agent.executors.flight_record import find_log_capture
from warrener_agent.ledger import connected_ledger
from warrener_agent.ledger.port import Claim, Ledger, LedgerUnavailable, Renewal
from warrener_agent.run_table import STEP_MARGIN, Run, ack_all
from warrener_runtime.logs import get_logger

_log = get_logger("agent.leases")

_STOP_SHARE: Final = 0.3
"""Share of the lease that is left when a handler whose claim could not be renewed is stopped."""
_DELETION_PAUSE: Final = 0.1
"""Seconds between two batches of a deletion, so that claims never queue behind them."""
_SECOND_REQUEST_SHARE: Final = 0.25  # share of the lease after which an unanswered renewal is requested again

CHECK_SHARE: Final = 0.05  # share of a lease between two checks of the loop
_RENEW_SHARE: Final = 0.65  # share of a lease that is left when a blocked loop has missed its renewal
_END_SHARE: Final = 0.25  # share that is left when the process has to end, if nothing has renewed the lease
_STALLED_SHARE: Final = 0.15  # the same, while no thread of Python runs
_GONE_SHARE: Final = 0.1  # share that is left when the process must be gone: clocks are not exact
_RETRY_SHARE: Final = 0.15  # share after which an unanswered renewal is tried again, by another connection
_MAX_PENDING: Final = 3  # renewals that wait for an answer at once
_CHECKS_BEFORE_END: Final = 2  # checks in a row that find the loop blocked before its process ends
_AFTER_FREEZE: Final = 1.0
"""Seconds that a loop has to turn after its process was stopped: it fences its runs itself then."""


class LeaseKeeper:
    """Renews the claims of what runs, from the event loop.

    `silent`: True if the agent sends no heartbeats, so that other agents will get its jobs.
    """

    def __init__(self, agent: AgentContext, silent: Callable[[], bool]) -> None:
        self._agent, self._silent = agent, silent

    async def renew(self) -> None:
        """Renew all claims, and stop the handlers of those that are lost."""
        for even_awaited in (False, True):  # nearly always there are none of the latter
            if runs := [run for run in self._agent.running if run.held_after_block is even_awaited]:
                await self._renew(runs, even_awaited=even_awaited)

    async def give_way(self) -> None:
        """Renew often while the agent is cut off from the broker: a renewal says which jobs wait for their
        claims, and those must not wait for the next regular one."""
        if self._silent():
            await self.renew()

    async def _renew(self, runs: list[Run], *, even_awaited: bool) -> None:
        requested_at = self._agent.clock.monotonic()
        try:
            renewal = await self._renewal([run.claim for run in runs], even_awaited=even_awaited)
        except LedgerUnavailable as error:
            _log.warning(
                "Leases could not be renewed: the ledger does not answer.",
                action="agent.renew_failed",
                error=str(error),
                running=len(runs),
            )
            return
        lease = self._agent.settings.agent_claim_ttl
        for run in runs:
            if run.data.job_id in renewal.renewed:
                run.lease_expires_at = max(run.lease_expires_at, requested_at + lease)
            elif run.data.job_id in renewal.locked:
                continue  # its own commit may hold the lock
            else:
                run.request_stop(StopCause.FENCED, "the claim was lost")

    async def _renewal(self, claims: list[Claim], *, even_awaited: bool) -> Renewal:
        """Return the first answer of two requests: one silent connection must not cost all leases."""

        async def request_renewal(after: float) -> Renewal:
            await self._agent.clock.sleep(after)
            with self._agent.metrics.ledger_call("renew"):
                return await self._agent.ledger.renew(
                    claims, agent_id=self._agent.holder_id, lease=self._agent.lease, even_awaited=even_awaited
                )

        second = self._agent.lease.total_seconds() * _SECOND_REQUEST_SHARE
        requests = {asyncio.create_task(request_renewal(after)) for after in (0.0, second)}
        try:
            while True:
                done, requests = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
                answered = [one for one in done if one.exception() is None]
                if answered or not requests:
                    return (answered or [*done])[0].result()
        finally:
            for one in requests:
                one.cancel()

    async def watch(self) -> None:
        """Stop handlers whose claims were not renewed in time, and acknowledge deliveries that are very old.

        Another agent may take a claim when its lease is over; its handler must have stopped by then.
        """
        now = self._agent.clock.monotonic()
        margin = self._agent.lease.total_seconds() * _STOP_SHARE
        for run in self._agent.running:
            if now > run.lease_expires_at - margin and run.stop is None:
                _log.error(
                    "An attempt was stopped: its lease could not be renewed.",
                    action="agent.self_fenced",
                    job_id=str(run.data.job_id),
                    attempt=run.data.attempt,
                )
                run.request_stop(StopCause.FENCED, "its lease could not be renewed")
        await self._acknowledge_old(now)

    async def delete_old(self) -> None:
        """Delete rows so old that no message about them can come, a batch at a time."""
        before = self._agent.clock.now() - timedelta(seconds=self._agent.settings.agent_claim_retention)
        rows, completions, batch = 0, 0, await self._agent.ledger.delete_old(before)
        while True:
            rows, completions = rows + batch.rows, completions + batch.completions
            if batch.after is None:
                break
            await self._agent.clock.sleep(_DELETION_PAUSE)
            batch = await self._agent.ledger.delete_old(before, after=batch.after)
        if rows:
            _log.info(
                "Old rows were deleted from the ledger.",
                action="agent.ledger_pruned",
                rows=rows,
                completions=completions,
            )

    async def _acknowledge_old(self, now: float) -> None:
        """Acknowledge early: the broker closes a channel whose delivery is too old. The claim alone says who
        runs the attempt from then on."""
        old = [
            (run, delivery_ref)
            for run in self._agent.running
            for delivery_ref in run.delivery_refs
            if now - delivery_ref.received_at > self._agent.settings.agent_early_ack
        ]
        for run, delivery_ref in old:
            run.delivery_refs.remove(delivery_ref)
            delivery_ref.complete_event()
        await ack_all(delivery_ref for _, delivery_ref in old)


class LeaseState(NamedTuple):
    """One lease: the seconds left, and True if its handler may be at work though the loop is blocked.
    `refused`: the ledger does not renew it."""

    left: float
    is_working: bool
    refused: bool = False


def is_due(leases: Sequence[LeaseState], lease: float) -> bool:
    """True if a lease must be renewed from outside the loop."""
    return any(not one.refused and one.left <= _RENEW_SHARE * lease for one in leases)


def must_end(leases: Sequence[LeaseState], lease: float, *, starved: bool = False) -> bool:
    """True if a handler is at work whose lease is nearly over; nearer still if its process is `starved` of
    processor time and may still renew it. A handler that stands still takes no step."""
    return any(
        one.is_working and one.left <= (_GONE_SHARE if starved and not one.refused else _END_SHARE) * lease
        for one in leases
    )


class BlockedLoopLeases:
    """Renews the claims of what runs from threads, while the event loop is blocked.

    The thread that watches the loop calls `check`.
    """

    def __init__(self, agent: AgentContext) -> None:
        self._agent, self._lease = agent, agent.settings.agent_claim_ttl
        self._checked_at = inf
        self._silent_since = 0.0
        self._checks = 0
        self._patient_until = 0.0
        self._pending: set[object] = set()
        self._last_try_at = -inf
        self._refused: set[tuple[Claim, bool]] = set()
        self._is_logged = False
        self._working: list[Run] = []

    def check(self, *, turned: bool, task: asyncio.Task[Any] | None = None, starved: bool = False) -> bool:
        """Renew leases that are due, and return True if the process has to end now.

        `turned`: True if the loop has turned since the last check. `task`: the task that it runs. `starved`:
        True if its process waits for a processor.
        """
        now = self._agent.clock.monotonic()
        stopped = now - self._checked_at > _AFTER_FREEZE
        self._checked_at = now
        if turned:
            self._checks, self._silent_since, self._is_logged = 0, now, False
            self._refused, self._working = set(), []
            return False
        if stopped and self._patient_until < self._silent_since:  # once for each silence
            self._patient_until = now + _AFTER_FREEZE
        self._checks += 1
        leases = self._leases(now, task, starved=starved)
        self._working = [run for run, state in leases if state.is_working]
        if is_due([state for _, state in leases], self._lease):
            self._start_renewal(now, leases)
        if self._checks < _CHECKS_BEFORE_END or now < self._patient_until:
            return False
        return must_end([state for _, state in leases], self._lease, starved=starved)

    def seconds_silent(self) -> float:
        """Return for how long the loop has not turned."""
        return self._agent.clock.monotonic() - self._silent_since

    def deadline(self) -> float:
        """Return the moment by which a thread of Python must have checked again."""
        now = self._agent.clock.monotonic()
        ends = [
            run.lease_expires_at
            for run in self._agent.running
            if not run.handler_ended and run.lease_expires_at - now >= STEP_MARGIN * self._lease
        ]
        return min([now + self._lease, *ends]) - _STALLED_SHARE * self._lease

    def time_to_end(self) -> float:
        """Return the seconds until the process must be gone, if nothing renews its leases."""
        end = min((run.lease_expires_at for run in self._working if not run.handler_ended), default=inf)
        return end - self._agent.clock.monotonic() - _GONE_SHARE * self._lease

    def _leases(
        self, now: float, task: asyncio.Task[Any] | None, *, starved: bool
    ) -> list[tuple[Run, LeaseState]]:
        """All that run here. If the blocking coroutine is known, the other coroutines stand still; all do if
        a starved loop is at a task of the agent itself."""
        log_capture = None if task is None else find_log_capture(task)
        own_task = starved and task is not None and log_capture is None
        current = None if log_capture is None else self._agent.running.get(log_capture.claim)
        leases: list[tuple[Run, LeaseState]] = []
        for run in self._agent.running:
            is_working = not run.handler_ended and (
                run.is_off_loop or (current is None and not own_task) or run is current
            )
            refused = (run.claim, is_working) in self._refused
            leases.append((run, LeaseState(run.lease_expires_at - now, is_working, refused)))
        return leases

    def _start_renewal(self, now: float, leases: list[tuple[Run, LeaseState]]) -> None:
        """Renew in a thread of its own: a database that does not answer must not block the watcher."""
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
                "The event loop is blocked, and its leases could not be renewed from outside it: the ledger "
                "does not answer.",
                action="agent.blocked_renew_failed",
                error=str(error),
            )
        finally:
            self._pending.discard(token)

    async def _renew_by_own_connection(self, leases: list[tuple[Run, LeaseState]], token: object) -> None:
        async with connected_ledger(self._agent.settings.ledger_url) as ledger:
            for is_working in (True, False):
                runs = [run for run, state in leases if state.is_working is is_working]
                if runs:
                    await self._extend(ledger, runs, is_working=is_working)
            self._pending.discard(token)
            self._log_renewed(leases)

    async def _extend(self, ledger: Ledger, runs: list[Run], *, is_working: bool) -> None:
        """Renew these. A handler that stands still gives way to an attempt that waits; one at work cannot."""
        clock = self._agent.clock
        requested_at = clock.monotonic()
        renewal = await ledger.renew(
            [run.claim for run in runs],
            agent_id=self._agent.holder_id,
            lease=self._agent.lease,
            even_awaited=is_working,
        )
        for run in runs:
            if run.data.job_id in renewal.renewed:
                run.lease_expires_at = max(run.lease_expires_at, requested_at + self._lease)
                run.held_after_block = run.held_after_block or is_working
            elif run.data.job_id not in renewal.locked:
                self._refused.add((run.claim, is_working))

    def _log_renewed(self, leases: list[tuple[Run, LeaseState]]) -> None:
        """Log once each time that the loop is blocked."""
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
