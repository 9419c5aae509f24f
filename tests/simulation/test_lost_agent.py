"""What the defaults promise of a lost agent: its jobs run elsewhere within ten seconds (decision 0021).

In virtual time: on real processes the same second is longer on a busy machine.
"""

from uuid import UUID, uuid4

import pytest
from tests.simulation.world import World

from warrener_agent.ledger.port import PROCESS_MARK
from warrener_contracts.events import JobRequested, JobRequestedData
from warrener_contracts.messages import Message, build_message

JOBS = 4
WITHIN = 10.0
BY_MESSAGE, BY_WATCHDOG = 900.0, 1.0
"""Seconds after which the agent acknowledges what still runs: nothing but its silence is seen of it then."""


@pytest.mark.parametrize(
    "early_ack",
    [
        pytest.param(BY_MESSAGE, id="its messages come again"),
        pytest.param(BY_WATCHDOG, id="its silence is noticed"),
    ],
)
@pytest.mark.parametrize("seed", range(8))
async def test_3_the_jobs_of_a_lost_agent_run_elsewhere_within_ten_seconds(
    seed: int, early_ack: float
) -> None:
    world = World(seed, agents=2, rests=(600.0,))
    world.early_ack = early_ack
    async with world:
        jobs = [uuid4() for _ in range(JOBS)]
        await world.publish(*(request(job_id) for job_id in jobs))
        await world.clock.run_until(lambda: all(holder(world, job_id) for job_id in jobs), within=30)
        await world.clock.advance(10 + seed / 4)  # they are announced, and heartbeats list them

        lost = next(process for process in world.processes if process.life.agent_id == holder(world, jobs[0]))
        its_own = [job_id for job_id in jobs if holder(world, job_id) == lost.life.agent_id]
        gone = lost.life.agent_id
        lost.life.dead.set()
        await world.clock.run_until(
            lambda: all(holder(world, job_id) not in (gone, None) for job_id in its_own), within=WITHIN
        )


def request(job_id: UUID) -> Message:
    data = JobRequestedData(job_type="slow", arguments={"seconds": 100.0})
    return build_message(JobRequested(id=str(job_id), source="test", data=data))


def holder(world: World, job_id: UUID) -> str | None:
    """The agent that runs the job, by the ledger."""
    entry = world.ledger.entries.get(job_id)
    if entry is None or entry.holder is None:
        return None
    return entry.holder.partition(PROCESS_MARK)[0]
