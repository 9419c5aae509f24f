"""Leases are renewed while the event loop is blocked, and old rows of the ledger are deleted."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from services.agent.tests.stage import WAIT, HandlerRig, LedgerProxy, SlowLedger, Stage
from services.agent.tests.test_heartbeat import agent_context, run_since_now

from warrener_agent import Agent, JobContext
from warrener_agent.leases import BlockedLoopLeases, LeaseState, is_due, must_end
from warrener_agent.ledger import connected_ledger, open_ledger
from warrener_agent.ledger.port import DeletedRows, Ledger
from warrener_contracts.events import AttemptSucceeded
from warrener_runtime.virtual_clock import VirtualClock

# -- while the event loop is blocked (guarantee G3) ---------------------------------------------------------


async def test_a_later_attempt_waits_until_the_success_of_its_own_agent_is_recorded(stage: Stage) -> None:
    agent, calls = Agent(), list[int]()

    @agent.job("quick")
    async def quick(job: JobContext) -> int:
        calls.append(job.attempt)
        return job.attempt

    ledger = SlowLedger(open_ledger(stage.ledger_url), "complete")
    await stage.enter(agent, ledger=ledger)
    job = await stage.dispatch("quick")
    await ledger.begun.wait()
    await stage.dispatch("quick", job_id=job, attempt=2)
    beside = await stage.dispatch("quick")  # handled after it
    await stage.until(lambda: len(calls) == 2, "the one beside to run")
    ledger.go_on.set()
    assert (await stage.wait_for_event(AttemptSucceeded, beside)).data.result == 1
    assert (await stage.wait_for_event(AttemptSucceeded, job, times=2)).data.result == 1, "told again"
    assert len(calls) == 2


@pytest.mark.parametrize("is_working", [True, False])
async def test_g3_of_a_blocked_loop_what_is_at_work_keeps_its_claim_and_what_stands_still_gives_way(
    stage: Stage, *, is_working: bool
) -> None:
    context, delivery_ref = agent_context(stage, VirtualClock()), await stage.delivery()
    run = run_since_now(stage, VirtualClock(), delivery_ref)
    async with connected_ledger(stage.ledger_url) as ledger:
        await ledger.claim([run.claim], agent_id=context.holder_id, lease=context.lease)
        await ledger.claim([run.claim._replace(attempt=2)], agent_id="rival", lease=context.lease)
        await BlockedLoopLeases(context)._extend(ledger, [run], is_working=is_working)
    assert run.held_after_block is is_working


WORKS, STILL = True, False


@pytest.mark.parametrize(
    ("leases", "due", "ends", "ends_starved"),
    [
        ([(4.3, WORKS)], False, False, False),
        ([(5.0, WORKS), (3.8, STILL)], True, False, False),  # the loop has missed its renewal
        ([(-1.0, WORKS, "refused")], False, True, True),  # it would be refused again
        ([(5.0, WORKS), (1.4, WORKS, "refused")], False, True, True),
        ([(1.6, WORKS), (-3.0, STILL)], True, False, False),
        ([(0.7, WORKS)], True, True, False),  # it may renew until a tenth is left
        ([(0.7, WORKS), (0.6, WORKS)], True, True, True),  # the next look may be too late
    ],
)
def test_g3_a_lease_is_renewed_from_outside_the_loop_and_a_process_ends_for_that_of_a_handler_at_work(
    leases: list[tuple[Any, ...]], *, due: bool, ends: bool, ends_starved: bool
) -> None:
    states = [LeaseState(*lease) for lease in leases]
    assert is_due(states, lease=6.0) is due
    assert must_end(states, lease=6.0) is ends
    assert must_end(states, lease=6.0, starved=True) is ends_starved


# -- deletion of old rows -----------------------------------------------------------------------------------

WEEK = timedelta(days=7)


class NotedLedger(LedgerProxy):
    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.forgot: list[datetime] = []
        self.has_forgotten = asyncio.Event()

    async def delete_old(self, before: datetime, *, after: datetime | None = None) -> DeletedRows:
        self.forgot.append(before)
        batch = await self._ledger.delete_old(before, after=after)
        if batch.after is None:
            self.has_forgotten.set()
        return batch


async def test_once_an_hour_what_is_older_than_a_week_is_forgotten(stage: Stage, rig: HandlerRig) -> None:
    clock = VirtualClock()
    ledger = NotedLedger(open_ledger(stage.ledger_url))
    # Everything else that an agent does again and again, as rarely as can be: two hours pass in a moment.
    await stage.enter(rig.agent, ledger=ledger, clock=clock, agent_claim_ttl=1e6, agent_heartbeat=1e6)
    began = clock.now()
    for _ in range(3):
        async with asyncio.timeout(WAIT):
            await ledger.has_forgotten.wait()
        ledger.has_forgotten.clear()
        await clock.advance(3600.0)
    assert ledger.forgot[:3] == [began - WEEK + timedelta(hours=hours) for hours in range(3)]
