"""No handler starts after its job's end, even if no agent or supervisor lived when the job ended."""

from functools import partial
from uuid import UUID, uuid4

import pytest
from tests.simulation import invariants
from tests.simulation.workload import cancel_request, slow_request
from tests.simulation.world import World

from warrener_contracts import topology
from warrener_contracts.state_machine import JobState

BATCH = 40


async def test_a_job_that_was_cancelled_while_no_agent_lived_never_starts() -> None:
    async with World(1, agents=1, rests=(100.0,)) as world:
        world.process("agent").life.dead.set()
        cancelled, others = [[uuid4() for _ in range(BATCH)] for _ in range(2)]
        await world.publish(*map(slow_request, [*cancelled, *others]))
        await world.clock.advance(30)  # their dispatches stand in the queue
        await world.publish(*map(cancel_request, cancelled))

        def are_cancelled() -> bool:
            rows = world.store.jobs
            return all(rows[each].state is JobState.CANCELLED for each in cancelled)

        await world.clock.run_until(are_cancelled, within=30)
        await world.clock.run_until(world.settled, within=600)  # the next agent knows nothing of the ends

        assert not any(world.workshop.runs[each] for each in cancelled)
        rows = world.store.jobs
        assert all(rows[each].state is JobState.SUCCEEDED for each in others)
        await invariants.check(world, [*cancelled, *others])


async def test_agents_start_old_dispatches_though_no_supervisor_answers() -> None:
    async with World(1, agents=1, supervisors=0, rests=(10.0,)) as world:
        world.process("agent").life.dead.set()
        jobs = [uuid4() for _ in range(BATCH)]
        await world.publish(*map(slow_request, jobs))
        await world.clock.run_until(lambda: all(world.workshop.runs[each] for each in jobs), within=30)


@pytest.mark.parametrize("seed", range(4))
async def test_hosts_with_ledgers_of_their_own_wait_for_the_verdict_on_a_job_that_ends_its_agents(
    seed: int,
) -> None:
    async with World(seed, agents=6, rests=(1000.0,), separate_ledgers=True) as world:
        job_id = uuid4()
        await world.publish(slow_request(job_id, 5.0))
        for starts in range(1, 6):
            await world.clock.run_until(partial(has_started_or_died, world, job_id, starts), within=100)
            await world.clock.advance(1)  # the start is announced
            if is_dead(world, job_id):
                break
            row = world.store.jobs[job_id]
            next(one for one in world.processes if one.life.agent_id == row.agent_id).life.dead.set()

        row = world.store.jobs[job_id]
        assert row.state is JobState.DEAD
        deaths = 0 if row.error is None else len(row.error.crashes)
        assert world.workshop.runs[job_id] == deaths == row.policy.quarantine_threshold


@pytest.mark.parametrize("seed", range(3))
async def test_hosts_with_ledgers_of_their_own_start_no_attempt_that_was_judged_lost(seed: int) -> None:
    """An agent that nobody hears runs the first attempt, another one the second, and the broker gives the
    first one to a third agent."""
    async with World(seed, agents=3, rests=(1000.0,), separate_ledgers=True, early_ack=900.0) as world:
        job_id = uuid4()
        await world.publish(slow_request(job_id, 100.0))
        await world.clock.run_until(partial(runs_attempt, world, job_id, 1), within=30)
        await world.clock.advance(20)  # supervisors have received heartbeats for longer than a lease
        agents = {one.life.agent_id: one.life for one in world.processes if one.name.startswith("agent")}
        frozen = agents[world.store.jobs[job_id].agent_id or ""]
        frozen.forbidden |= {topology.HEARTBEATS, topology.CONTROL, topology.STATUS}
        await world.clock.run_until(partial(runs_attempt, world, job_id, 2), within=60)
        assert world.store.jobs[job_id].agent_id != frozen.agent_id
        starts = world.workshop.runs[job_id]
        frozen.dead.set()
        await world.clock.advance(40)
        assert world.workshop.runs[job_id] == starts == 2
        await world.clock.run_until(lambda: world.store.jobs[job_id].state.terminal, within=120)
        assert world.store.jobs[job_id].attempt == 2
        assert not world.workshop.overlaps


def runs_attempt(world: World, job_id: UUID, attempt: int) -> bool:
    row = world.store.jobs.get(job_id)
    return row is not None and (row.state, row.attempt) == (JobState.RUNNING, attempt)


def has_started_or_died(world: World, job_id: UUID, starts: int) -> bool:
    return world.workshop.runs[job_id] == starts or is_dead(world, job_id)


def is_dead(world: World, job_id: UUID) -> bool:
    return job_id in world.store.jobs and world.store.jobs[job_id].state is JobState.DEAD
