"""Groups and chains that a program requests by one message, on a whole system in virtual time: the join is
not lost, whatever dies at it, and each job runs once."""

from collections import Counter
from typing import Any
from uuid import UUID

import pytest
from tests.simulation import workflow_handlers
from tests.simulation.handlers import shop
from tests.simulation.invariants import check
from tests.simulation.workload import job_request
from tests.simulation.world import World

from warrener_agent import Agent, JobContext
from warrener_agent.canvas import canvas
from warrener_client import BadRequest, Client, GroupResult, Job, RequestRejected
from warrener_contracts.canvas import CHAIN, GROUP
from warrener_contracts.state_machine import JobState
from warrener_runtime.bus.memory import MemoryBus

agent = Agent()
agent.include(workflow_handlers.agent)
agent.include(canvas)


@agent.job("total", start_timeout="60s")
async def total(job: JobContext, numbers: list[int]) -> int:
    return await shop().work(job, 0.2, sum(numbers))


def load(number: int) -> dict[str, Any]:
    return {"job_type": "load", "arguments": {"number": number}}


FAILING = {"job_type": "ship", "arguments": {"order": 7, "works": False}}
CHORD: dict[str, Any] = {
    "members": [load(1), load(2), load(3)],
    "in_flight": 2,
    "then": {"job_type": "total", "result_argument": "numbers"},
}
"""As any language publishes it."""
STEPS: list[dict[str, Any]] = [
    {
        "job_type": "reserve",
        "arguments": {"order": 7},
        "undo": {"job_type": "release", "arguments": {"order": 7}},
    },
    {"job_type": GROUP, "arguments": CHORD},
    load(0) | {"arguments": {}, "result_argument": "number"},
]


def new_world(seed: int) -> World:
    world = World(seed, schedulers=1, supervisors=1, agents=1, rests=(1.0,))
    world.handlers = agent
    return world


def new_client(world: World) -> Client:
    return Client(bus=MemoryBus(world.broker, name="client"), clock=world.clock, entropy=world.entropy)


async def settle(world: World, *job_ids: UUID) -> None:
    jobs = world.store.jobs
    await world.clock.run_until(lambda: {*job_ids} <= jobs.keys() and world.settled(), within=1200)
    await world.clock.advance(20)


async def end(world: World, *jobs: Job) -> None:
    await settle(world, *(job.job_id for job in jobs))


def loads(world: World) -> Counter[int]:
    rows = (world.store.jobs[job_id] for job_id, _ in world.ledger.effects)
    return Counter(row.arguments["number"] for row in rows if row.job_type == "load")


async def test_a_client_requests_a_group_and_a_chain_and_receives_their_results() -> None:
    async with new_world(1) as world, new_client(world) as client:
        group = await client.request_group([load(4), load(5), FAILING], in_flight=2)
        chord = await client.request_group(CHORD["members"], then=CHORD["then"])
        chain = await client.request_chain(STEPS, id="the-chain")
        await end(world, group, chord, chain)
        await check(world, [group.job_id, chord.job_id, chain.job_id], may_die={"ship"})
        result = await group.result(as_=GroupResult)
        assert (result.succeeded, result.failed, result.results) == (2, 1, (4, 5, None))
        [failure] = result.failures
        assert (failure.index, failure.state) == (2, JobState.DEAD)
        assert "the carrier takes none" in failure.error
        assert await chord.result() == 6
        assert await chain.result() == 6
        assert loads(world) == {1: 2, 2: 2, 3: 2, 4: 1, 5: 1, 6: 1}


async def test_a_chain_that_fails_is_undone() -> None:
    async with new_world(1) as world, new_client(world) as client:
        chain = await client.request_chain([STEPS[0], FAILING, load(1)])
        await end(world, chain)
        row = world.store.jobs[chain.job_id]
        assert row.state is JobState.DEAD
        assert row.error is not None
        assert row.error.type == "warrener_agent.canvas.ChainFailed"
        assert "steps.1 (ship)" in row.error.message
        assert [world.store.jobs[job_id].job_type for job_id, _ in world.ledger.effects] == [
            "reserve",
            "release",
        ]


async def test_a_mistake_is_refused_by_its_place_in_the_client_and_by_the_scheduler() -> None:
    async with new_world(1) as world, new_client(world) as client:
        with pytest.raises(BadRequest, match=r"members\.1\.job_type: .*, got 'no type'"):
            await client.request_group([load(1), {"job_type": "no type"}])
        bad = [load(1), {"job_type": "load", "argument": {"number": 2}}]
        job = await client.request(GROUP, {"members": bad})
        await world.clock.run_until(lambda: job.is_finished, within=60)
        with pytest.raises(RequestRejected, match=r"arguments\.members\.1: expected no 'argument'"):
            await job.result()


@pytest.mark.parametrize("effect_first", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", ["scheduler", "supervisor", "agent"])
async def test_a_process_dies_at_each_stage_of_a_chain_with_a_chord(kind: str, *, effect_first: bool) -> None:
    for nth in range(0, 10_000, 7 if effect_first else 17):  # of those with an effect there are fewer
        async with new_world(nth) as world:
            life = world.process(kind).life
            life.strike_at(nth, effect_first=effect_first)
            job_id = world.entropy.new_id()
            await world.publish(job_request(job_id, CHAIN, arguments={"steps": STEPS}))
            await settle(world, job_id)
            await check(world, [job_id])
            assert world.store.jobs[job_id].result == 6
            assert loads(world) == {1: 1, 2: 1, 3: 1, 6: 1}
            if not life.struck:
                assert nth > 20, "the story must make some calls"
                return
