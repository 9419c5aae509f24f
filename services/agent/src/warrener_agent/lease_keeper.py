"""The claims of what runs: renewed in one batch, and handlers stopped before another may have their claim."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from warrener_agent.agent_context import AgentContext
from warrener_agent.delivery_refs import ack_all
from warrener_agent.ledger.port import Claim, Ledger, LedgerUnavailable, Renewal
from warrener_agent.run_table import Run, StopCause
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


class LeaseKeeper:
    """Keeps the claims of what runs. `silent`: True if the agent sends no heartbeats, so others will have its
    jobs."""

    def __init__(self, agent: AgentContext, silent: Callable[[], bool]) -> None:
        self._agent, self._silent = agent, silent

    async def renew(self) -> None:
        """Renew all; who has lost his claim must stop."""
        for even_awaited in (False, True):  # nearly always there are none of the latter
            if runs := [run for run in self._agent.running if run.even_awaited is even_awaited]:
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
                "Leases cannot be renewed: the ledger does not answer.",
                action="agent.renew_failed",
                error=str(error),
                running=len(runs),
            )
            return
        lease = self._agent.settings.agent_lease
        awaited: list[Run] = []
        for run in runs:
            if run.data.job_id in renewal.renewed:
                run.lease_expires_at = max(run.lease_expires_at, requested_at + lease)
            elif run.data.job_id in renewal.locked:
                continue  # perhaps by its own commit
            elif not even_awaited and not self._silent() and run.is_recent_takeover(requested_at, lease):
                run.even_awaited = True
                awaited.append(run)
            else:
                run.request_stop(StopCause.FENCED, "the claim was lost")
        if awaited:
            await self._renew(awaited, even_awaited=True)

    async def _renewal(self, claims: list[Claim], *, even_awaited: bool) -> Renewal:
        """The first answer. A second request goes out while there is time: one silent connection must not
        cost all leases."""

        async def request_renewal(after: float) -> Renewal:
            await self._agent.clock.sleep(after)
            return await self._agent.ledger.renew(
                claims, agent_id=self._agent.agent_id, lease=self._agent.lease, even_awaited=even_awaited
            )

        second = self._agent.lease.total_seconds() * _SECOND_REQUEST
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
        """Stop what could not be renewed in time, and acknowledge what has run for very long.

        Another agent may take a claim when its lease is over; what still runs then must have stopped by
        itself.
        """
        now = self._agent.clock.monotonic()
        margin = self._agent.lease.total_seconds() * _MARGIN
        for run in self._agent.running:
            if now > run.lease_expires_at - margin and run.stop is None:
                _log.error(
                    "An attempt is stopped: its lease could not be renewed.",
                    action="agent.self_fenced",
                    job_id=str(run.data.job_id),
                    attempt=run.data.attempt,
                )
                run.request_stop(StopCause.FENCED, "its lease could not be renewed")
        await self._acknowledge_old(now)

    async def delete_old(self) -> None:
        """Delete what is so old that no message about it can come any more, a batch at a time."""
        before = self._agent.clock.now() - timedelta(seconds=self._agent.settings.agent_remember)
        rows, completions, batch = 0, 0, await self._agent.ledger.delete_old(before)
        while True:
            rows, completions = rows + batch.rows, completions + batch.completions
            if batch.after is None:
                break
            await self._agent.clock.sleep(_BETWEEN_BATCHES)
            batch = await self._agent.ledger.delete_old(before, after=batch.after)
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
            (run, delivery_ref)
            for run in self._agent.running
            for delivery_ref in run.delivery_refs
            if now - delivery_ref.received_at > self._agent.settings.agent_early_ack
        ]
        for run, delivery_ref in old:
            run.delivery_refs.remove(delivery_ref)
            delivery_ref.complete_event()
        await ack_all(delivery_ref for _, delivery_ref in old)


async def connect_with_retry(ledger: Ledger, clock: Clock) -> None:
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
