"""The leases of an agent whose event loop is blocked. They are renewed from threads, by connections of their
own; if they cannot be, the process must end before they do.

Shares of a lease count from its last renewal. While the loop turns it renews at 0.7.
"""

import asyncio
import threading
from collections.abc import Sequence
from math import inf
from typing import Any, Final, NamedTuple

from warrener_agent.executors.last_words import words_of
from warrener_agent.ledger import open_ledger
from warrener_agent.ledger.port import Claim, Ledger, LedgerUnavailable
from warrener_agent.running import STEP_MARGIN, Run
from warrener_agent.workplace import Workplace
from warrener_runtime.logs import get_logger

_log = get_logger("agent.leases")

LOOK: Final = 0.05
"""The share of a lease between two looks at the loop."""
_RENEW: Final = 0.65
"""The share of a lease that is left when a blocked loop has missed its renewal."""
_END: Final = 0.25
"""The share that is left when the process has to end, if nothing has renewed it."""
_SEIZED: Final = 0.15
"""The same, where no thread of Python runs."""
_GONE: Final = 0.1
"""The share that is left when the process must be gone: clocks are not exact."""
_AGAIN: Final = 0.15
"""The share after which a renewal without an answer is tried again, by another connection."""
_TRIES: Final = 3
"""Renewals that wait for an answer at once."""
_LOOKS: Final = 2
"""The looks in a row in which a loop must not have turned before its process ends."""
_AFTER_FREEZE: Final = 1.0
"""Seconds that a loop has to turn after its process was stopped: it fences what it runs by itself."""


class Held(NamedTuple):
    """One lease: seconds left, and whether its handler may be at work though the loop is blocked. `refused`:
    the ledger does not renew it."""

    left: float
    works: bool
    refused: bool = False


def is_due(leases: Sequence[Held], lease: float) -> bool:
    """True if one must be renewed from outside the loop."""
    return any(not one.refused and one.left <= _RENEW * lease for one in leases)


def must_end(leases: Sequence[Held], lease: float) -> bool:
    """True if a handler is at work whose lease is nearly over. One that stands still takes no step then."""
    return any(one.works and one.left <= _END * lease for one in leases)


class BlockedLeases:
    """Looked at by the thread that watches the loop."""

    def __init__(self, at: Workplace) -> None:
        self._at, self._lease = at, at.settings.agent_lease
        self._looked_at = inf
        self._silent_since = 0.0
        self._looks = 0
        self._patient_until = 0.0
        self._pending: set[object] = set()
        self._tried_at = -inf
        self._refused: set[tuple[Claim, bool]] = set()
        self._said = False
        self._working: list[Run] = []

    def look(self, *, turned: bool, task: asyncio.Task[Any] | None = None) -> bool:
        """Renew what is due, and return True if the process has to end now. `turned`: the loop has since the
        last look. `task`: what it is at."""
        now = self._at.clock.monotonic()
        stopped = now - self._looked_at > _AFTER_FREEZE
        self._looked_at = now
        if turned:
            self._looks, self._silent_since, self._said = 0, now, False
            self._refused, self._working = set(), []
            return False
        if stopped and self._patient_until < self._silent_since:  # once each time that it is silent
            self._patient_until = now + _AFTER_FREEZE
        self._looks += 1
        leases = self._leases(now, task)
        self._working = [run for run, held in leases if held.works]
        if is_due([held for _, held in leases], self._lease):
            self._try(now, leases)
        if self._looks < _LOOKS or now < self._patient_until:
            return False
        return must_end([held for _, held in leases], self._lease)

    def seconds_silent(self) -> float:
        """For how long the loop has not turned."""
        return self._at.clock.monotonic() - self._silent_since

    def deadline(self) -> float:
        """The moment before which a thread of Python must have looked again."""
        now = self._at.clock.monotonic()
        ends = [
            run.lease_good_until
            for run in self._at.running
            if not run.over and run.lease_good_until - now >= STEP_MARGIN * self._lease
        ]
        return min([now + self._lease, *ends]) - _SEIZED * self._lease

    def time_to_end(self) -> float:
        """Seconds until the process must be gone, if nothing renews its leases."""
        end = min((run.lease_good_until for run in self._working if not run.over), default=inf)
        return end - self._at.clock.monotonic() - _GONE * self._lease

    def _leases(self, now: float, task: asyncio.Task[Any] | None) -> list[tuple[Run, Held]]:
        """All that run here. The coroutines but the one that blocks stand still, if that is known."""
        words = None if task is None else words_of(task)
        current = None if words is None else self._at.running.get(Claim(words.job_id, words.attempt))
        leases: list[tuple[Run, Held]] = []
        for run in self._at.running:
            works = not run.over and (run.apart or current is None or run is current)
            refused = (run.claim, works) in self._refused
            leases.append((run, Held(run.lease_good_until - now, works, refused)))
        return leases

    def _try(self, now: float, leases: list[tuple[Run, Held]]) -> None:
        """In a thread of its own: a database that does not answer must not hold up who watches."""
        if self._pending and (now - self._tried_at < _AGAIN * self._lease or len(self._pending) >= _TRIES):
            return
        self._tried_at, token = now, object()
        self._pending.add(token)
        threading.Thread(target=self._renew, args=(leases, token), name="lease renewal", daemon=True).start()

    def _renew(self, leases: list[tuple[Run, Held]], token: object) -> None:
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

    async def _renew_by_own_connection(self, leases: list[tuple[Run, Held]], token: object) -> None:
        ledger = open_ledger(self._at.settings.ledger_url)
        try:
            await ledger.start()
            for works in (True, False):
                runs = [run for run, held in leases if held.works is works]
                if runs:
                    await self._extend(ledger, runs, works=works)
            self._pending.discard(token)
            self._say(leases)
        finally:
            await ledger.close()

    async def _extend(self, ledger: Ledger, runs: list[Run], *, works: bool) -> None:
        """What stands still gives way to an attempt that waits for it; what is at work cannot."""
        clock = self._at.clock
        asked = clock.monotonic()
        renewal = await ledger.renew(
            [run.claim for run in runs],
            agent_id=self._at.agent_id,
            lease=self._at.lease,
            even_awaited=works,
        )
        for run in runs:
            if run.data.job_id in renewal.kept:
                run.lease_good_until = max(run.lease_good_until, asked + self._lease)
                run.even_awaited = run.even_awaited or works
            elif run.data.job_id not in renewal.locked:
                self._refused.add((run.claim, works))

    def _say(self, leases: list[tuple[Run, Held]]) -> None:
        """Once each time that the loop is blocked."""
        if self._said:
            return
        self._said = True
        blocking = [run for run, held in leases if held.works and not run.apart]
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
