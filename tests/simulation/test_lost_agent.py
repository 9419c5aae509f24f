"""What the defaults promise of a lost agent, or one that has lost its database: its jobs run elsewhere within
ten seconds (decision 0009), or within fifteen.

In virtual time: on real processes the same second is longer on a busy machine.
"""

from collections import Counter
from uuid import UUID, uuid4

import pytest
from structlog.testing import capture_logs
from tests.simulation.workload import slow_request
from tests.simulation.world import World

from warrener_agent.ledger.port import PROCESS_MARK
from warrener_contracts.events import AgentLost, ServiceUnresponsive
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import REQUESTS_QUEUE, dispatch_queue

JOBS = 4
WITHIN = 10.0
WITHIN_A_LEASE_AND_A_RETURN = 15.0
"""Seconds: the agent may receive its job once more, and keeps a message for 5 s before it returns it."""
BY_MESSAGE, BY_WATCHDOG = 900.0, 1.0
"""Seconds after which the agent acknowledges what still runs: nothing but its silence is seen of it then."""


@pytest.mark.parametrize(
    "early_ack", [BY_MESSAGE, BY_WATCHDOG], ids=["its messages come again", "its silence is noticed"]
)
@pytest.mark.parametrize("seed", range(8))
async def test_3_the_jobs_of_a_lost_agent_run_elsewhere_within_ten_seconds(
    seed: int, early_ack: float
) -> None:
    async with World(seed, agents=2, rests=(600.0,), early_ack=early_ack) as world:
        jobs = [uuid4() for _ in range(JOBS)]
        await world.publish(*(slow_request(job_id, 100.0) for job_id in jobs))
        await world.clock.run_until(lambda: all(holder(world, job_id) for job_id in jobs), within=30)
        await world.clock.advance(10 + seed / 4)  # they are announced, and heartbeats list them

        lost = next(process for process in world.processes if process.life.agent_id == holder(world, jobs[0]))
        its_own = [job_id for job_id in jobs if holder(world, job_id) == lost.life.agent_id]
        gone = lost.life.agent_id
        lost.life.dead.set()
        await world.clock.run_until(
            lambda: all(holder(world, job_id) not in (gone, None) for job_id in its_own), within=WITHIN
        )


@pytest.mark.parametrize("seed", range(4))
async def test_12_the_jobs_of_an_agent_without_its_database_run_on_another_one_uncharged(seed: int) -> None:
    """Each host has a database of its own, and the one of the first agent does not answer for minutes."""
    async with World(seed, agents=2, rests=(600.0,), separate_ledgers=True, early_ack=BY_MESSAGE) as world:
        jobs = [uuid4() for _ in range(JOBS)]
        await world.publish(*(slow_request(job_id, 100.0) for job_id in jobs))
        await world.clock.run_until(lambda: all(runner(world, job_id) for job_id in jobs), within=30)
        first = runner(world, jobs[0])
        its_own = [job_id for job_id in jobs if runner(world, job_id) == first]
        (host,) = [one.clock for one in world.processes if one.life.agent_id == first]
        ledgers = world.separate_ledgers
        assert ledgers is not None
        ledgers[host].away = True

        await world.clock.run_until(
            lambda: all(runner(world, job_id) not in (first, None) for job_id in its_own),
            within=WITHIN_A_LEASE_AND_A_RETURN,
        )
        await world.clock.run_until(lambda: not world.store.live, within=150)
        rows = [world.store.jobs[job_id] for job_id in jobs]
        assert {(row.state, row.losses, row.failures) for row in rows} == {(JobState.SUCCEEDED, 0, 0)}
        assert not world.workshop.rivals, "the first agent has stopped its handlers before"


async def test_3_the_supervisor_raises_each_alarm_once_for_agents_and_schedulers_that_are_gone() -> None:
    with capture_logs() as logs:
        async with World(1, schedulers=1, supervisors=1, agents=1, rests=(300.0,)) as world:
            await world.clock.advance(10)
            jobs = [uuid4() for _ in range(JOBS)]
            agent = world.process("agent").life
            agent.dead.set()
            await world.publish(*(slow_request(job_id) for job_id in jobs))
            await world.clock.advance(60)
            world.process("scheduler").life.dead.set()
            unread = uuid4()
            await world.publish(slow_request(unread))
            await world.clock.advance(60)
            (lost,) = (event for event in world.published if isinstance(event, AgentLost))
            assert lost.data.agent_id == agent.agent_id
            stalled = [event.data for event in world.published if isinstance(event, ServiceUnresponsive)]
            assert [(one.service, one.queue, one.waiting) for one in stalled] == [
                ("agent", dispatch_queue("default").name, JOBS),
                ("scheduler", REQUESTS_QUEUE.name, 1),
            ]
            await world.clock.run_until(lambda: len(world.store.jobs) > JOBS and world.settled(), within=600)
            assert {row.state for row in world.store.jobs.values()} == {JobState.SUCCEEDED}
    alerts = Counter(str(line.get("action")) for line in logs)
    assert (alerts["alert.agent_lost"], alerts["alert.service_unresponsive"]) == (1, 2)


def runner(world: World, job_id: UUID) -> str | None:
    row = world.store.jobs.get(job_id)
    return row.agent_id if row is not None and row.state is JobState.RUNNING else None


def holder(world: World, job_id: UUID) -> str | None:
    """The agent that runs the job, by the ledger."""
    entry = world.ledger.entries.get(job_id)
    if entry is None or entry.holder is None:
        return None
    return entry.holder.partition(PROCESS_MARK)[0]
