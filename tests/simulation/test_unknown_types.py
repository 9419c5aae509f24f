"""A job type that no agent knows yet costs no job: what waits for it goes on when an agent announces it.

In virtual time, because the pauses between two tries are minutes.
"""

from uuid import UUID

import pytest
from tests.simulation import handlers
from tests.simulation.invariants import check
from tests.simulation.workload import request
from tests.simulation.world import World

from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import AgentAnnounced, JobRequested
from warrener_contracts.identity import job_id_of, schedule_source
from warrener_contracts.messages import build_message
from warrener_contracts.state_machine import JobState

WITHIN = 60.0
"""Seconds after an agent's start: it announces at once, but another agent may take the job first."""
INVENTED = 400


@pytest.mark.parametrize("seed", range(3))
async def test_13_a_job_that_agents_gave_back_runs_soon_after_one_announces_its_type(seed: int) -> None:
    async with World(seed, agents=2, rests=(0.1,)) as world:
        await world.publish(build_message(announcement()))
        await world.clock.advance(5)
        job_id, message = request(world, "novel", number=1)
        await world.publish(message)
        await world.clock.advance(1800)  # between two tries are five minutes now
        attempt = world.store.jobs[job_id].attempt
        await world.clock.run_until(lambda: world.store.jobs[job_id].attempt > attempt, within=400)
        await world.clock.advance(10)

        start_next_release(world)  # the other agent does not know the type
        await world.clock.run_until(lambda: succeeded(world, [job_id]), within=WITHIN)
        await check(world, [job_id])
        assert world.store.jobs[job_id].failures == 0


@pytest.mark.parametrize("seed", range(3))
async def test_13_requests_of_a_type_that_nobody_had_announced_go_on_without_a_person(seed: int) -> None:
    async with World(seed, agents=1, rests=(0.1,)) as world:
        invented = [request(world, f"invented.{n}")[1] for n in range(INVENTED)]
        await world.publish(*invented)
        wanted = [request(world, "novel", number=n) for n in range(250)]
        await world.publish(*(message for _, message in wanted))
        wanted_then = {"job_type": "novel", "arguments": {"number": 1}}
        tick = JobRequested.model_validate(
            {"id": "12:00", "source": schedule_source("hourly"), "data": wanted_then}
        )
        await world.publish(build_message(tick))
        await world.clock.advance(600)
        assert not world.store.jobs, "rejected, and parked"
        assert set(await parked_types(world)) == {*(f"invented.{n}" for n in range(INVENTED)), "novel"}

        start_next_release(world)
        jobs = [job_id for job_id, _ in wanted]
        await world.clock.run_until(lambda: succeeded(world, jobs), within=15)
        await world.clock.advance(30)
        assert world.store.jobs.keys() == {*jobs}, "a tick of the past does not run late"
        assert job_id_of(tick.source, tick.id) not in world.store.jobs
        assert max(world.workshop.runs.values()) == 1
        assert (await parked_types(world)).count("novel") == 1, "the tick"


@pytest.mark.parametrize("seed", range(6))
async def test_13_a_request_that_is_rejected_during_the_announcement_goes_on(seed: int) -> None:
    async with World(seed, agents=1, rests=(0.1,)) as world:
        await world.clock.advance(5)
        jobs: list[UUID] = []
        start_next_release(world)
        for number in range(60):  # some are rejected before the announcement and parked after it
            job_id, message = request(world, "novel", number=number)
            jobs.append(job_id)
            await world.publish(message)
            await world.clock.advance(0.05)
        await world.clock.run_until(lambda: succeeded(world, jobs), within=15)
        assert await parked_types(world) == []


def start_next_release(world: World) -> None:
    world.handlers = handlers.next_release
    world.process("agent").drain_requested.set()


def announcement() -> AgentAnnounced:
    declared = {"name": "novel", "arguments_schema": {"type": "object"}}
    data = {"agent_id": "gone", "queues": ["default"], "job_types": [declared]}
    return AgentAnnounced.model_validate({"id": "1", "source": "gone", "data": data})


def succeeded(world: World, jobs: list[UUID]) -> bool:
    rows = [world.store.jobs.get(job_id) for job_id in jobs]
    return all(row is not None and row.state is JobState.SUCCEEDED for row in rows)


async def parked_types(world: World) -> list[str]:
    return [
        found.event.data.job_type
        for message in await world.store.parked(limit=10_000)
        for found in decode(message.body, message.content_type)
        if isinstance(found, DecodedEvent) and isinstance(found.event, JobRequested)
    ]
