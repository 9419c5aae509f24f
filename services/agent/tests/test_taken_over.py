"""An attempt that another agent may have begun: the next agent announces it before it begins it, so that the
supervisor knows whom it ends, and a loss that is declared meanwhile does not stop it."""

import asyncio
import time
from datetime import timedelta

from services.agent.tests.stage import Stage

from warrener_agent import Agent, JobContext
from warrener_agent.ledger import Claim, ClaimStatus, open_ledger
from warrener_contracts.events import AttemptStarted, AttemptSucceeded
from warrener_contracts.topology import DELAY_QUEUES

NEVER = 1000.0
LEASE = 2.0


class Waiting:
    """A job that waits in its first life until its agent is gone, and in its second one for a gate."""

    def __init__(self) -> None:
        self.agent, self.begun, self.gate = Agent(), asyncio.Queue[int](), asyncio.Event()

        @self.agent.job("wait")
        async def wait(job: JobContext) -> int:
            self.begun.put_nowait(job.attempt)
            await self.gate.wait()
            return job.attempt


async def test_what_an_agent_has_left_behind_is_announced_by_the_next_one_and_what_is_new_is_not(
    stage: Stage,
) -> None:
    agent, begun = Agent(), asyncio.Queue[int]()
    lives = 0

    @agent.job("wait")
    async def wait(job: JobContext) -> int:
        nonlocal lives
        lives += 1
        begun.put_nowait(job.attempt)
        if lives == 1:
            await asyncio.Event().wait()
        return job.attempt

    first = await stage.enter(agent, agent_lease=1.0, agent_announce_after=NEVER)
    job = await stage.dispatch("wait")
    await begun.get()
    await stage.leave(first)
    assert not stage.of(AttemptStarted), "it was new: nobody waits for a word about it"

    await stage.enter(agent, agent_lease=1.0, agent_announce_after=NEVER)
    assert (await stage.wait_for_event(AttemptSucceeded, job)).data.result == 1
    assert len(stage.of(AttemptStarted, job)) == 1


async def test_an_attempt_that_is_taken_over_as_its_loss_is_declared_is_not_run_a_third_time(
    stage: Stage,
) -> None:
    waiting = Waiting()
    first = await stage.enter(waiting.agent, agent_lease=1.0)
    job = await stage.dispatch("wait")
    assert await waiting.begun.get() == 1
    await stage.leave(first)
    await stage.enter(waiting.agent, agent_lease=30.0)
    assert await waiting.begun.get() == 1

    await stage.dispatch("wait", job_id=job, attempt=2)
    await stage.until(lambda: stage.broker.ready(DELAY_QUEUES[0].name) == 1, "the second attempt to wait")
    waiting.gate.set()
    await stage.until(lambda: len(stage.of(AttemptSucceeded, job)) == 2, "an answer to each dispatch")
    assert {event.data.result for event in stage.of(AttemptSucceeded, job)} == {1}, "the run of attempt 1"
    assert waiting.begun.empty()


async def test_a_later_attempt_elsewhere_waits_for_one_that_was_taken_over_just_before(stage: Stage) -> None:
    waiting, other = Waiting(), open_ledger(stage.ledger_url)
    first = await stage.enter(waiting.agent, agent_lease=1.0)
    job = await stage.dispatch("wait")
    assert await waiting.begun.get() == 1
    await stage.leave(first)
    await stage.enter(waiting.agent, agent_lease=LEASE)
    assert await waiting.begun.get() == 1

    async def claim_later_attempt() -> ClaimStatus:
        claims = [Claim(job, 2)]
        (answer,) = await other.claim(claims, agent_id="other", lease=timedelta(seconds=LEASE))
        return answer.status

    await other.start()
    try:
        enough = time.monotonic() + 2 * LEASE  # what is not renewed is granted within one lease
        while time.monotonic() < enough:
            assert await claim_later_attempt() is ClaimStatus.HELD
        waiting.gate.set()
        await stage.wait_for_event(AttemptSucceeded, job)
        assert await claim_later_attempt() is ClaimStatus.COMPLETED
        assert waiting.begun.empty()
    finally:
        await other.close()
