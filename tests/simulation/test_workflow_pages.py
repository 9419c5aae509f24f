"""Maps over the list that a child job returned, and steps that read their results: in pages of four, whatever
dies."""

import os
from functools import partial

import pytest
from tests.simulation.crash_injection import strike_each_call
from tests.simulation.workflow_world import (
    check_orders,
    children,
    end,
    request,
    settle,
    small_world,
    turns_of,
)

from warrener_contracts.events import CallKind
from warrener_contracts.journals import all_calls, answers_by_call
from warrener_contracts.state_machine import JobState

_STRIDE = 3 * int(os.environ.get("WARRENER_CRASH_STRIDE", "9"))


@pytest.mark.parametrize("items", [0, 1, 4, 9])
async def test_each_item_of_a_list_is_loaded_once_and_the_journal_has_none(items: int) -> None:
    async with small_world(1) as world:
        job = await request(world, "import_listed", items=items, in_flight=5)
        await settle(world, job)
        await check_orders(world, job)
        assert world.store.jobs[job].result == [items, sum(range(items))]
        numbers = [row.arguments["number"] for row in children(world, job) if row.job_type == "load"]
        assert sorted(numbers) == list(range(items))
        turns = await turns_of(world, job)
        answers = answers_by_call(turns)
        kinds = {call.call_id: call.kind for call in all_calls(turns)}
        assert all(one.result is None for call, one in answers.items() if kinds[call] is not CallKind.STEP)


@pytest.mark.parametrize("effect_first", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", ["agent", "supervisor"])
async def test_a_process_dies_at_every_call_of_a_map_over_a_list_in_turn(
    kind: str, *, effect_first: bool
) -> None:
    await strike_each_call(
        partial(_struck_story, kind, effect_first=effect_first),
        _STRIDE,
        effect_first=effect_first,
        most=2_000,
    )


async def _struck_story(kind: str, nth: int, *, effect_first: bool) -> bool:
    async with small_world(nth) as world:
        life = world.process(kind).life
        life.strike_at(nth, effect_first=effect_first, deadly=True)
        job = await request(world, "import_listed", items=6, in_flight=3)
        await end(world, job, within=1200)
        struck = life.struck
        await world.clock.advance(20)
        await check_orders(world, job)
        assert world.store.jobs[job].state is JobState.SUCCEEDED
        assert world.store.jobs[job].result == [6, 15]
        return struck
