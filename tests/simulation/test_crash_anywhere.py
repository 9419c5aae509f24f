"""G9: each service may die, or be failed by its infrastructure, at any call it makes; nothing is lost or done
twice."""

from itertools import count
from typing import Any, Literal
from uuid import UUID

import pytest
from tests.simulation.invariants import check, check_trees
from tests.simulation.workload import cancel_request, job_request
from tests.simulation.world import World

from warrener_contracts.events import JobFinished
from warrener_contracts.state_machine import JobState

_ENOUGH = 400  # calls; each story makes fewer, and ends the count itself


@pytest.mark.parametrize("effect_first", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("scheduler", "dies"),
        ("scheduler", "is failed"),
        ("supervisor", "dies"),
        ("supervisor", "is failed"),
        ("agent", "dies"),  # its own tests fail its ledger, which raises nothing but LedgerError
    ],
)
async def test_g9_a_process_is_struck_at_every_call_in_turn(
    kind: str, how: Literal["dies", "is failed"], *, effect_first: bool
) -> None:
    for nth in count():
        assert nth < _ENOUGH, "the story does not end"
        if not await _story(kind, how, nth, effect_first=effect_first):
            assert nth > 5, "the story must make some calls"
            return


async def _story(kind: str, how: str, nth: int, *, effect_first: bool) -> bool:
    """Jobs of all kinds while the `nth` call goes wrong; whether it was made at all."""
    async with World(nth, schedulers=1, supervisors=1, agents=1, rests=(1.0,)) as world:
        life = world.process(kind).life
        strike = life.die_at if how == "dies" else life.fail_at
        strike(nth, effect_first=effect_first)
        jobs = [
            await _request(world, "flaky", failures=1),
            await _request(world, "doomed"),
            await _request(world, "parent", children=1),
            await _request(world, "quick", delay=2, number=1),
            await _request(world, "signals", how="to come again"),
            await _request(world, "signals", how="to be cancelled"),
            await _request(world, "signals", how="to be dead"),
            await _request(world, "climber"),
            await _request(world, "slow", seconds=30.0),
        ]
        root, unknown_job = await _request(world, "grower", left=20), world.entropy.new_id()
        await world.publish(cancel_request(unknown_job))
        at_once = await _request(world, "slow", seconds=30.0)
        await world.publish(cancel_request(at_once))
        await world.clock.advance(4)
        await world.publish(cancel_request(jobs[-1]), cancel_request(root, tree=True))
        await _request(world, "quick", job_id=unknown_job, number=7)
        await world.clock.run_until(
            lambda: world.settled() and {*jobs, root, unknown_job, at_once} <= world.store.jobs.keys(),
            within=400,
        )
        struck = life.struck
        await world.clock.advance(60)  # a failed batch waits for its next try
        await check(world, jobs)
        await check_trees(world, [root])
        states = [world.store.jobs[job_id].state for job_id in jobs]
        assert states[:4] == [JobState.SUCCEEDED, JobState.DEAD, JobState.SUCCEEDED, JobState.SUCCEEDED]
        assert states[4:7] == [JobState.SUCCEEDED, JobState.CANCELLED, JobState.DEAD], "as they have asked"
        assert states[7] is JobState.SUCCEEDED, "it found its checkpoints"
        assert states[8] is JobState.CANCELLED
        assert sum(row.job_type == "grower" for row in world.store.jobs.values()) < 20, "cut short"
        assert world.store.jobs[unknown_job].state is JobState.CANCELLED
        assert world.store.jobs[at_once].state is JobState.CANCELLED
        assert not world.workshop.runs[unknown_job]
        answered = {event.data.job_id for event in world.published if isinstance(event, JobFinished)}
        assert answered >= {*jobs, unknown_job, at_once}
        return struck


async def _request(world: World, kind: str, *, job_id: UUID | None = None, **arguments: Any) -> UUID:
    job_id, delay = job_id or world.entropy.new_id(), arguments.pop("delay", None)
    request = job_request(job_id, kind, arguments=arguments, delay=delay, reply_to="asker")
    await world.publish(request)
    return job_id
