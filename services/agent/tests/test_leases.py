"""Leases are renewed while the event loop is blocked, and old rows of the ledger are deleted."""

import asyncio
from datetime import datetime, timedelta
from typing import cast

import pytest
from services.agent.tests.stage import WAIT, HandlerRig, LedgerProxy, SlowLedger, Stage
from services.agent.tests.test_heartbeat import agent_context, run_since_now

from warrener_agent import Agent, JobContext
from warrener_agent.leases import BlockedLoopLeases, LeaseState, is_due, must_end
from warrener_agent.ledger import DeletedRows, Ledger, connected_ledger, open_ledger
from warrener_agent.settings import AgentSettings
from warrener_contracts.events import AttemptSucceeded
from warrener_runtime.settings import SettingsError, load
from warrener_runtime.virtual_clock import VirtualClock

# -- while the event loop is blocked (guarantee G3) ---------------------------------------------------------


async def test_a_later_attempt_waits_until_the_success_of_its_own_agent_is_recorded(stage: Stage) -> None:
    agent, calls = Agent(), list[int]()

    @agent.job("quick")
    async def quick(job: JobContext) -> int:
        calls.append(job.attempt)
        return job.attempt

    ledger = SlowLedger(open_ledger(stage.ledger_url), "complete")
    await stage.enter(agent, ledger=cast("Ledger", ledger))
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


def test_g3_a_lease_is_renewed_from_outside_the_loop_when_the_loop_has_missed_it() -> None:
    assert not is_due([LeaseState(4.3, is_working=True)], lease=6.0)
    assert is_due([LeaseState(5.0, is_working=True), LeaseState(3.8, is_working=False)], lease=6.0)
    assert not is_due([LeaseState(-1.0, is_working=True, refused=True)], lease=6.0), (
        "it would be refused again"
    )


def test_g3_a_process_ends_for_the_lease_of_a_handler_at_work() -> None:
    assert must_end(
        [LeaseState(5.0, is_working=True), LeaseState(1.4, is_working=True, refused=True)], lease=6.0
    )
    assert not must_end([LeaseState(1.6, is_working=True), LeaseState(-3.0, is_working=False)], lease=6.0)


def test_g3_a_process_that_the_machine_gives_no_time_may_renew_a_lease_until_a_tenth_is_left() -> None:
    late = LeaseState(0.7, is_working=True)
    assert not must_end([late], lease=6.0, starved=True)
    assert must_end([late, late._replace(refused=True)], lease=6.0, starved=True)
    assert must_end([late, late._replace(left=0.6)], lease=6.0, starved=True), "the next look may be too late"


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
    await stage.enter(
        rig.agent, ledger=cast("Ledger", ledger), clock=clock, agent_claim_ttl=1e6, agent_heartbeat=1e6
    )
    began = clock.now()
    for _ in range(3):
        async with asyncio.timeout(WAIT):
            await ledger.has_forgotten.wait()
        ledger.has_forgotten.clear()
        await clock.advance(3600.0)
    assert ledger.forgot[:3] == [began - WEEK + timedelta(hours=hours) for hours in range(3)]


def test_a_ledger_that_forgets_sooner_than_a_message_lives_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WARRENER_AGENT_CLAIM_RETENTION", "3600")
    with pytest.raises(SettingsError, match="WARRENER_AGENT_CLAIM_RETENTION: expected at least 2 h"):
        load(AgentSettings)
