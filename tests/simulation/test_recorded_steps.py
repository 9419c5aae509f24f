"""Steps in the ledger's transaction: whatever dies, each writes once."""

import asyncio
import os
from functools import partial

import pytest
from tests.simulation.crash_injection import strike_each_call
from tests.simulation.fault_injection import inject_faults
from tests.simulation.invariants import check
from tests.simulation.workflow_world import end, new_world, request, small_world
from tests.simulation.world import World

from warrener_contracts.state_machine import JobState

_STRIDE = 3 * int(os.environ.get("WARRENER_CRASH_STRIDE", "9"))


def booked(world: World) -> list[str]:
    return sorted(effect for _, effect in world.ledger.effects if effect.startswith("book"))


@pytest.mark.parametrize("effect_first", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", ["agent", "supervisor"])
async def test_a_process_dies_at_every_call_of_a_workflow_whose_steps_write(
    kind: str, *, effect_first: bool
) -> None:
    story = partial(_struck_story, kind, effect_first=effect_first)
    await strike_each_call(story, _STRIDE, effect_first=effect_first, most=2_000)


async def _struck_story(kind: str, nth: int, *, effect_first: bool) -> bool:
    async with small_world(nth) as world:
        life = world.process(kind).life
        life.strike_at(nth, effect_first=effect_first, deadly=True)
        job = await request(world, "booked", order=1)
        await end(world, job, within=1200)
        struck = life.struck
        await world.clock.advance(20)
        await check(world, [job], may_die=set())
        assert world.store.jobs[job].state is JobState.SUCCEEDED
        assert world.store.jobs[job].result == [1, 2, 1, 3]
        assert booked(world) == ["book 1", "book 2", "book 3"]
        return struck


@pytest.mark.parametrize("seed", range(10))
async def test_whatever_breaks_no_step_writes_twice(seed: int) -> None:
    async with new_world(seed) as world:
        jobs = [await request(world, "booked", order=10 * number) for number in range(1, 6)]
        injecting = asyncio.create_task(inject_faults(world, 60.0))
        await world.clock.run_until(injecting.done, within=200)
        await injecting
        await end(world, *jobs, within=2400)
        await world.clock.advance(20)
        rows = [world.store.jobs[job] for job in jobs]
        done = [row.arguments["order"] for row in rows if row.state is JobState.SUCCEEDED]
        effects = booked(world)
        assert len(effects) == len({*effects})
        assert {f"book {order + step}" for order in done for step in range(3)} <= {*effects}
