"""An order and a map of 20 under crashes, failures, pauses and repeats of a seed's choosing: `make
test-seeds` runs 10,000 of them. `test_workflows.py` has longer stories, whose brokers and clocks fail too."""

import asyncio
import gc
import os
from collections.abc import Iterator
from functools import partial
from uuid import UUID

import pytest
from tests.simulation import workflow_world as stories
from tests.simulation.workload import cancel_request
from tests.simulation.world import World

from warrener_contracts.state_machine import JobState

SEEDS = int(os.environ.get("WARRENER_ORDER_SEEDS", "20"))
FIRST = int(os.environ.get("WARRENER_ORDER_FIRST_SEED", "0"))
_RAGE = 6.0  # virtual seconds
_ITEMS = 20


@pytest.fixture(scope="module", autouse=True)
def rare_collections() -> Iterator[None]:
    """Collect garbage rarely: it takes a fifth of a simulation."""
    usual = gc.get_threshold()
    gc.set_threshold(100_000, 50, 50)
    yield
    gc.set_threshold(*usual)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
async def test_an_order_and_a_map_come_to_their_ends_and_each_effect_happens_once(seed: int) -> None:
    async with stories.new_world(seed, schedulers=1, rests=(0.1, 1.0, 3.0)) as world:
        dice = world.dice
        ships, approved, cancelled = (dice.random() < share for share in (0.7, 0.5, 0.2))
        mapped = await stories.request(world, "import", items=_ITEMS, in_flight=dice.choice((3, 7, _ITEMS)))
        order = await stories.request(world, "fulfil", order=1, ships=ships, approved=approved)
        doing = [asyncio.create_task(_strike(world))]
        if not approved:
            doing.append(asyncio.create_task(_approve(world, order)))
        if cancelled:
            doing.append(asyncio.create_task(_cancel(world, order)))
        await world.clock.run_until(lambda: all(task.done() for task in doing), within=600)
        await asyncio.gather(*doing)
        await world.clock.run_until(world.settled, within=600)
        await world.clock.advance(3)
        await stories.check_orders(world, mapped, order)
        assert world.store.jobs[mapped].result == _ITEMS
        if not cancelled:
            state = world.store.jobs[order].state
            assert state is (JobState.SUCCEEDED if ships else JobState.DEAD)


async def _strike(world: World) -> None:
    """At random calls processes die, are failed, or pause while others go on; messages come twice."""
    dice, until = world.dice, world.clock.monotonic() + _RAGE
    while world.clock.monotonic() < until:
        await world.clock.sleep(dice.choice((0.05, 0.2, 0.5, 1.5)))
        match dice.randrange(5):
            case 0:
                world.broker.duplicate(dice.randint(1, 5))
            case 1:
                world.broker.drop_connections()
            case how:
                pause = partial(world.clock.sleep, dice.uniform(0.05, 3.0)) if how == 2 else None
                process = dice.choice(world.processes)
                # An agent is not failed: nobody would know whether its handler had its effect.
                deadly = how == 4 or process.name.startswith("agent")
                first = dice.random() < 0.5
                process.life.strike_at(dice.randint(0, 25), effect_first=first, deadly=deadly, pause=pause)


async def _approve(world: World, order: UUID) -> None:
    """Early, late, and twice."""
    message = stories.signal(order, "approved", 1)
    for _ in range(world.dice.choice((1, 2))):
        await world.clock.sleep(world.dice.uniform(0, _RAGE))
        await world.publish(message)


async def _cancel(world: World, order: UUID) -> None:
    await world.clock.sleep(world.dice.uniform(0, _RAGE))
    await world.publish(cancel_request(order, tree=world.dice.random() < 0.5))
