"""The claims of what runs: renewed in one batch, and handlers stopped before another may have their claim."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from warrener_agent.ledger.port import Claim, Ledger, LedgerUnavailable, Renewal
from warrener_agent.receipts import acknowledge
from warrener_agent.running import Run, Stop
from warrener_agent.workplace import Workplace
from warrener_runtime.backoff import ExponentialBackoff
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger

_log = get_logger("agent.leases")

_MARGIN = 0.3
"""The share of the lease before its end at which a handler is stopped that could not be renewed."""
_BETWEEN_BATCHES = 0.1
"""Seconds between two deletions, so that claims never queue behind them."""
_SECOND_REQUEST = 0.25
"""The share of the lease after which a renewal that is not answered is asked for again."""


class Leases:
    """Keeps the claims of what runs. `silent`: True if the agent sends no heartbeats, so others will have its
    jobs."""

    def __init__(self, at: Workplace, silent: Callable[[], bool]) -> None:
        self._at, self._silent = at, silent

    async def renew(self) -> None:
        """Renew all; who has lost his claim must stop."""
        for even_awaited in (False, True):  # nearly always there are none of the latter
            if runs := [run for run in self._at.running if run.even_awaited is even_awaited]:
                await self._renew(runs, even_awaited=even_awaited)

    async def give_way(self) -> None:
        """Renew often while the agent is cut off from the broker: a renewal says which jobs wait for their
        claims, and those must not wait for the next regular one."""
        if self._silent():
            await self.renew()

    async def _renew(self, runs: list[Run], *, even_awaited: bool) -> None:
        asked = self._at.clock.monotonic()
        try:
            renewal = await self._renewal([run.claim for run in runs], even_awaited=even_awaited)
        except LedgerUnavailable as error:
            _log.warning(
                "Leases cannot be renewed: the ledger does not answer.",
                action="agent.renew_failed",
                error=str(error),
                running=len(runs),
            )
            return
        for run in runs:
            if run.data.job_id in renewal.kept:
                run.lease_good_until = max(run.lease_good_until, asked + self._at.settings.agent_lease)
            elif run.data.job_id not in renewal.locked:  # it may be locked by its own commit
                run.ask_to_stop(Stop.FENCED, "the claim was lost")

    async def _renewal(self, claims: list[Claim], *, even_awaited: bool) -> Renewal:
        """The first answer. A second request goes out while there is time: one silent connection must not
        cost all leases."""

        async def ask(after: float) -> Renewal:
            await self._at.clock.sleep(after)
            return await self._at.ledger.renew(
                claims, agent_id=self._at.agent_id, lease=self._at.lease, even_awaited=even_awaited
            )

        second = self._at.lease.total_seconds() * _SECOND_REQUEST
        asking = {asyncio.create_task(ask(after)) for after in (0.0, second)}
        try:
            while True:
                done, asking = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
                answered = [one for one in done if one.exception() is None]
                if answered or not asking:
                    return (answered or [*done])[0].result()
        finally:
            for one in asking:
                one.cancel()

    async def watch(self) -> None:
        """Stop what could not be renewed in time, and acknowledge what has run for very long.

        Another agent may take a claim when its lease is over; what still runs then must have stopped by
        itself.
        """
        now = self._at.clock.monotonic()
        margin = self._at.lease.total_seconds() * _MARGIN
        for run in self._at.running:
            if now > run.lease_good_until - margin and run.stop is None:
                _log.error(
                    "An attempt is stopped: its lease could not be renewed.",
                    action="agent.self_fenced",
                    job_id=str(run.data.job_id),
                    attempt=run.data.attempt,
                )
                run.ask_to_stop(Stop.FENCED, "its lease could not be renewed")
        await self._acknowledge_old(now)

    async def forget(self) -> None:
        """Delete what is so old that no message about it can come any more, a batch at a time."""
        before = self._at.clock.now() - timedelta(seconds=self._at.settings.agent_remember)
        rows, completions, batch = 0, 0, await self._at.ledger.forget(before)
        while True:
            rows, completions = rows + batch.rows, completions + batch.completions
            if batch.after is None:
                break
            await self._at.clock.sleep(_BETWEEN_BATCHES)
            batch = await self._at.ledger.forget(before, after=batch.after)
        if rows:
            _log.info(
                "Old rows were deleted from the ledger.",
                action="agent.forgot",
                rows=rows,
                completions=completions,
            )

    async def _acknowledge_old(self, now: float) -> None:
        """The broker closes a channel whose delivery is too old; past half of that the claim is the owner."""
        old = [
            (run, receipt)
            for run in self._at.running
            for receipt in run.receipts
            if now - receipt.received_at > self._at.settings.agent_early_ack
        ]
        for run, receipt in old:
            run.receipts.remove(receipt)
            receipt.settle()
        await acknowledge(receipt for _, receipt in old)


async def start_patiently(ledger: Ledger, clock: Clock) -> None:
    """Start the ledger, however long its database takes to come."""
    backoff = ExponentialBackoff(first=0.5, ceiling=5.0)
    while True:
        try:
            await ledger.start()
        except LedgerUnavailable as error:
            pause = backoff.failed()
            _log.warning(
                "The ledger is not there yet; trying again.",
                action="agent.ledger_unavailable",
                error=str(error),
                pause=pause,
            )
            await clock.sleep(pause)
        else:
            return
