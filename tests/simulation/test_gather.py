"""Gathered jobs share a call and nothing else: each has one end, wherever their agent dies or fails."""

import os
from collections import Counter
from functools import partial
from typing import Literal
from uuid import UUID

import pytest
from tests.simulation.crash_injection import strike_each_call
from tests.simulation.invariants import check
from tests.simulation.workload import cancel_request, request
from tests.simulation.world import World

from warrener_agent import Agent, Gather, JobContext
from warrener_contracts.state_machine import JobState

_STRIDE = int(os.environ.get("WARRENER_CRASH_STRIDE", "9"))


@pytest.mark.parametrize("effect_first", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("how", ["dies", "is failed"])
async def test_each_gathered_job_has_one_end_whichever_call_of_their_agent_is_struck(
    how: Literal["dies", "is failed"], *, effect_first: bool
) -> None:
    story = partial(_story, how, effect_first=effect_first)
    await strike_each_call(story, _STRIDE, effect_first=effect_first, most=900)


async def _story(how: str, nth: int, *, effect_first: bool) -> bool:
    world = World(nth, schedulers=1, supervisors=1, agents=2, rests=(1.0,), early_ack=900.0)
    rivals: list[UUID] = []
    world.handlers = _post(world, rivals)
    async with world:
        life = world.process("agent").life
        life.strike_at(nth, effect_first=effect_first, deadly=how == "dies")
        jobs: list[UUID] = []
        for number in range(10):
            job_id, message = request(world, "post", number=number)
            jobs.append(job_id)
            await world.publish(message)
        await world.clock.advance(0.5)
        await world.publish(cancel_request(jobs[0]))
        await world.clock.run_until(
            lambda: world.settled() and {*jobs} <= world.store.jobs.keys(), within=400
        )
        struck = life.struck
        await world.clock.advance(40)
        await check(world, jobs)
        assert rivals == [], "no job ran beside itself"
        rows = world.store.jobs
        for number, job_id in enumerate(jobs[1:], 1):
            assert (rows[job_id].state, rows[job_id].result) == (JobState.SUCCEEDED, number)
        assert rows[jobs[5]].failures == 1, "the one that failed"
        return struck


def _post(world: World, rivals: list[UUID]) -> Agent:
    agent, running = Agent(), Counter[UUID]()

    @agent.job("post", gather=Gather(up_to=4, within="1s"))
    async def post(number: list[int], jobs: list[JobContext]) -> list[int | Exception]:
        ids = [job.job_id for job in jobs]
        rivals.extend(job_id for job_id in ids if running[job_id])
        running.update(ids)
        try:
            await world.clock.sleep(0.7)
        finally:
            running.subtract(ids)
        return [
            RuntimeError("not yet") if one == 5 and world.workshop.fails_again(job_id, 1) else one
            for one, job_id in zip(number, ids, strict=True)
        ]

    return agent
