"""A paused queue: its jobs wait in the store, uncharged, wherever they were, and go on afterwards."""

from typing import Any
from uuid import UUID

import pytest
from tests.simulation import invariants
from tests.simulation.test_backlog import over, request_jobs
from tests.simulation.world import World

from warrener_contracts.events import BreakerSetRequested
from warrener_contracts.messages import build_message
from warrener_contracts.state_machine import JobState

HALF_AN_HOUR = 1800.0
HELD = {JobState.WAITING, JobState.RETRYING}


async def pause(world: World, **data: Any) -> None:
    data = {"name": "queue:default", "state": "open", "reason": "maintenance"} | data
    event = {"id": f"pause-{data['state']}", "source": "ops", "data": data}
    await world.publish(build_message(BreakerSetRequested.model_validate(event)))


def states(world: World, jobs: list[UUID]) -> set[JobState]:
    return {world.store.jobs[job].state for job in jobs}


@pytest.mark.parametrize(
    "open_for", [HALF_AN_HOUR, None], ids=["until its time is over", "until it is resumed"]
)
async def test_jobs_of_a_paused_queue_wait_until_it_goes_on(open_for: float | None) -> None:
    """Some wait in the broker, some are retries, some come later; what runs goes on."""
    async with World(3, agents=1, rests=(5.0,)) as world:
        running = await request_jobs(world, 4, "slow", seconds=60.0)
        await world.clock.run_until(lambda: states(world, running) == {JobState.RUNNING}, within=30)
        queued = await request_jobs(world, 30, "quick", number=1)
        await pause(world, **({} if open_for is None else {"open_for": open_for}))
        await world.clock.advance(10)
        later = [
            *await request_jobs(world, 30, "quick", number=1),
            *await request_jobs(world, 10, "flaky", failures=1),
        ]
        await world.clock.run_until(lambda: over(world, running), within=120)
        await world.clock.advance(20 * 60)  # past the interval at which held jobs are looked at
        assert not any(world.workshop.runs[job] for job in [*queued, *later])
        assert states(world, [*queued, *later]) <= HELD

        if open_for is None:
            await world.clock.advance(HALF_AN_HOUR)
            assert not any(world.workshop.runs[job] for job in [*queued, *later])
            await pause(world, state="closed")
        await world.clock.run_until(lambda: over(world, [*queued, *later]), within=HALF_AN_HOUR)
        assert {world.workshop.runs[job] for job in queued} == {1}
        assert {world.store.jobs[job].failures for job in queued} == {0}
        await world.clock.advance(60)
        await invariants.check(world, [*running, *queued, *later])
