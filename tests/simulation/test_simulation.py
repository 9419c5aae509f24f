"""Whatever dies, breaks or comes twice: every job comes to one end (invariants of the design, section 3)."""

import asyncio
import os

import pytest
from tests.simulation.fault_injection import inject_faults
from tests.simulation.invariants import check, check_poison, check_trees
from tests.simulation.workload import Workload
from tests.simulation.world import World

SEEDS = int(os.environ.get("WARRENER_SIMULATION_SEEDS", "40"))
FIRST = int(os.environ.get("WARRENER_SIMULATION_FIRST_SEED", "0"))
JOBS = 25
RAGE = 120.0  # virtual seconds of faults
PEACE = 1200.0  # virtual seconds after them in which everything must have come to its end


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
async def test_g1_to_g9_every_job_comes_to_one_end_whatever_breaks(seed: int) -> None:
    async with World(seed) as world:
        workload = Workload(world)
        publishing = asyncio.create_task(workload.publish_requests(JOBS))
        injecting = asyncio.create_task(inject_faults(world, RAGE))
        await world.clock.run_until(lambda: publishing.done() and injecting.done(), within=RAGE + 600)
        await publishing
        await injecting

        await world.clock.run_until(lambda: _over(world, workload), within=PEACE)
        await world.clock.advance(60)  # what still wanders must find that nothing is left to do

        await check(world, workload.accepted)
        await check_trees(world, workload.cancelled_roots)
        await check_poison(world)


def _over(world: World, workload: Workload) -> bool:
    return world.settled() and workload.accepted <= world.store.jobs.keys()
