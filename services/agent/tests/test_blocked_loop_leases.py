"""Guarantee G3 while the event loop of an agent is blocked: its leases are renewed from outside the loop, an
attempt that waits for one that is at work waits on, and what stands still gives way."""

import asyncio
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

import pytest
from services.agent.tests.stage import Stage

from warrener_agent import Agent, JobContext
from warrener_agent.ledger import Claim, ClaimStatus, Completion, Ledger, open_ledger
from warrener_contracts.events import AttemptSucceeded

LEASE = 2.0


class Blocker:
    """A handler that blocks the loop for 2.5 leases, and one in a thread that works beside it."""

    def __init__(self) -> None:
        self.agent = Agent()
        self.blocking = threading.Event()
        self.begun, self.waiting = asyncio.Event(), asyncio.Event()
        self.go_on = asyncio.Event()

        @self.agent.job("blocks")
        async def blocks(job: JobContext, *, goes_on: bool = False) -> int:
            self.begun.set()
            self.blocking.set()
            time.sleep(2.5 * LEASE)  # noqa: ASYNC251 - a mistaken handler
            if goes_on:
                await self.go_on.wait()
            return job.attempt

        @self.agent.job("waits")
        async def waits(job: JobContext) -> int:
            self.waiting.set()
            await self.go_on.wait()
            return job.attempt


class Rival(threading.Thread):
    """Another agent, that claims the next attempts while the loop of the test is blocked."""

    def __init__(self, ledger_url: str, blocking: threading.Event, claims: Sequence[Claim]) -> None:
        super().__init__(daemon=True)
        self._url, self._blocking, self._claims = ledger_url, blocking, claims
        self.statuses: list[list[ClaimStatus]] = []

    def run(self) -> None:
        assert self._blocking.wait(20)
        asyncio.run(self._compete())

    async def _compete(self) -> None:
        ledger = open_ledger(self._url)
        await ledger.start()
        try:
            end = time.monotonic() + 2.0 * LEASE
            while time.monotonic() < end:
                self.statuses.append(await claim(ledger, self._claims))
                await asyncio.sleep(LEASE / 10)
        finally:
            await ledger.close()


async def claim(ledger: Ledger, claims: Sequence[Claim]) -> list[ClaimStatus]:
    statuses = await ledger.claim(claims, agent_id="rival", lease=timedelta(0))
    return [answer.status for answer in statuses]


@pytest.mark.parametrize("goes_on", [False, True], ids=["ends", "goes on"])
async def test_g3_what_blocks_the_loop_keeps_its_lease_although_a_later_attempt_waits(
    stage: Stage, *, goes_on: bool
) -> None:
    blocker, codes = Blocker(), list[int]()
    await stage.enter(blocker.agent, agent_lease=LEASE, end_process=codes.append, ledger_url=stage.ledger_url)
    still = await stage.dispatch("waits")
    await blocker.waiting.wait()
    job = stage.dispatched("blocks", {"goes_on": goes_on})
    rival = Rival(stage.ledger_url, blocker.blocking, [Claim(job.data.job_id, 2), Claim(still, 2)])
    rival.start()
    await stage.dispatch_together(job)
    await blocker.begun.wait()  # the loop turns again when it has blocked
    blocker.go_on.set()
    assert (await stage.wait_for_event(AttemptSucceeded, job.data.job_id)).data.result == 1
    rival.join(20)
    assert {at_work for at_work, _ in rival.statuses} <= {ClaimStatus.HELD, ClaimStatus.COMPLETED}
    assert ClaimStatus.GRANTED in {standing for _, standing in rival.statuses}, (
        "it stood still, and gives way"
    )
    assert not stage.of(AttemptSucceeded, still)
    assert not codes


class SlowToRecord:
    """A ledger that records successes when it is let."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.recording, self.let = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def complete(self, completions: Sequence[Completion], *, agent_id: str) -> set[UUID]:
        self.recording.set()
        await self.let.wait()
        return await self._ledger.complete(completions, agent_id=agent_id)


async def test_a_later_attempt_waits_until_the_success_of_its_own_agent_is_recorded(stage: Stage) -> None:
    agent, calls = Agent(), list[int]()

    @agent.job("quick")
    async def quick(job: JobContext) -> int:
        calls.append(job.attempt)
        return job.attempt

    ledger = SlowToRecord(open_ledger(stage.ledger_url))
    await stage.enter(agent, ledger=cast("Ledger", ledger))
    job = await stage.dispatch("quick")
    await ledger.recording.wait()
    await stage.dispatch("quick", job_id=job, attempt=2)
    beside = await stage.dispatch("quick")  # handled after it
    await stage.until(lambda: len(calls) == 2, "the one beside to run")
    ledger.let.set()
    assert (await stage.wait_for_event(AttemptSucceeded, beside)).data.result == 1
    assert (await stage.wait_for_event(AttemptSucceeded, job, times=2)).data.result == 1, "told again"
    assert len(calls) == 2
