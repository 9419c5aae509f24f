"""Issue 4, poison: an attempt that another agent may have begun is announced before it begins, so that
whoever dies of it next has been named."""

import asyncio

from services.agent.tests.stage import Stage

from warrener_agent import Agent, JobContext
from warrener_contracts.events import AttemptStarted, AttemptSucceeded

NEVER = 1000.0


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
