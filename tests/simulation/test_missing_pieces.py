"""A piece of the topology that is gone costs no healthy job: heartbeats that reach nobody are no silence.

In virtual time, because each fault would take a minute on real processes.
"""

from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from tests.simulation.test_lost_agent import holder
from tests.simulation.workload import cancel_request, slow_request
from tests.simulation.world import World

from warrener_contracts import topology
from warrener_contracts.messages import Message
from warrener_contracts.state_machine import JobState
from warrener_runtime.bus.memory import MemoryBroker
from warrener_runtime.bus.types import PublishResult

JOBS = 3
HEALING = 5.0
"""Seconds after which heartbeats must arrive again."""


FAULTS: dict[str, Callable[[MemoryBroker, str], None]] = {
    "no heartbeats exchange": lambda broker, _: broker.delete_exchange(topology.HEARTBEATS),
    "no control exchange": lambda broker, _: broker.delete_exchange(topology.CONTROL),
    "unbound": lambda broker, queue: broker.unbind(queue, [topology.Binding(topology.HEARTBEATS, "#")]),
    "no queues": lambda broker, queue: broker.delete_queue(queue),
}
"""What happens to the broker, for each supervisor's queue of heartbeats."""


def _queues(world: World, of: str) -> list[str]:
    return [name for name in world.broker.queue_names() if name.startswith(f"warrener.{of}.")]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("agents", [1, 2])
async def test_3_no_healthy_job_is_lost_when_heartbeats_reach_nobody(agents: int, fault: str) -> None:
    async with World(1, agents=agents, early_ack=900.0) as world:
        jobs = [uuid4() for _ in range(JOBS)]
        await world.publish(*(slow_request(job_id, 100.0) for job_id in jobs))
        await world.clock.run_until(lambda: all(holder(world, job_id) for job_id in jobs), within=30)
        await world.clock.advance(30)  # every supervisor has received heartbeats for longer than a lease

        queues = _queues(world, "heartbeats")
        assert queues
        for queue in queues:
            FAULTS[fault](world.broker, queue)
        await world.clock.advance(HEALING)
        seen = {agent.agent_id: agent.last_seen_at for agent in await world.store.agents()}
        await world.clock.advance(HEALING)
        later = {agent.agent_id: agent.last_seen_at for agent in await world.store.agents()}
        assert all(later[agent_id] > moment for agent_id, moment in seen.items()), "it healed by itself"

        await world.clock.run_until(world.settled, within=120)
        assert [_summary(world, job_id) for job_id in jobs] == [(JobState.SUCCEEDED, 1, 0)] * JOBS


@pytest.mark.parametrize("exchange", [topology.HEARTBEATS, topology.CONTROL])
async def test_3_an_agent_whose_heartbeats_are_refused_ends_its_jobs_and_takes_no_others(
    exchange: str,
) -> None:
    async with World(1, agents=1, early_ack=900.0) as world:
        running, next_job = uuid4(), uuid4()
        await world.publish(slow_request(running, 100.0))
        await world.clock.run_until(lambda: holder(world, running) is not None, within=30)
        await world.clock.advance(30)

        world.process("agent").life.forbidden.add(exchange)
        await world.clock.advance(8)
        await world.publish(slow_request(next_job, 100.0))
        await world.clock.run_until(lambda: world.store.jobs[running].state.terminal, within=120)
        await world.clock.advance(60)
        assert _summary(world, running) == (JobState.SUCCEEDED, 1, 0)
        assert holder(world, next_job) is None, "it waits for an agent that supervisors can see"
        (agent,) = await world.store.agents()
        assert exchange in (agent.trouble or ""), "explain and doctor name the piece"

        world.process("agent").life.forbidden.clear()
        await world.clock.run_until(lambda: holder(world, next_job) is not None, within=30)
        await world.clock.run_until(world.settled, within=150)
        assert _summary(world, next_job) == (JobState.SUCCEEDED, 1, 0)


async def test_9_a_binding_that_only_commands_to_an_agent_would_miss_comes_back() -> None:
    async with World(1, agents=1) as world:
        job = uuid4()
        await world.publish(slow_request(job, 100.0))
        await world.clock.run_until(lambda: holder(world, job) is not None, within=30)
        [queue] = _queues(world, "control")
        agent_id = queue.removeprefix("warrener.control.").rpartition(".")[0]
        keys = ("all", f"agent.{agent_id}")
        world.broker.unbind(queue, [topology.Binding(topology.CONTROL, key) for key in keys])
        probes = [_probe(key) for key in keys]
        assert [world.broker.publish(one) for one in probes] == [PublishResult.UNROUTABLE] * 2
        await world.clock.advance(25)
        assert [world.broker.publish(one) for one in probes] == [PublishResult.CONFIRMED] * 2


async def test_1_a_job_whose_cancellation_its_agent_missed_does_not_start() -> None:
    """As when a node of a cluster was frozen: the agent receives nothing for a while, on the same queue."""
    async with World(1, agents=1) as world:
        running, waiting = [uuid4() for _ in range(4)], uuid4()  # they take every slot
        await world.publish(*(slow_request(job_id, 60.0) for job_id in running))
        await world.clock.run_until(lambda: all(holder(world, job_id) for job_id in running), within=30)
        await world.clock.advance(10)
        await world.publish(slow_request(waiting, 1.0))
        await world.clock.run_until(lambda: world.store.jobs[waiting].state is JobState.QUEUED, within=30)

        [queue] = _queues(world, "control")
        agent_id = queue.removeprefix("warrener.control.").rpartition(".")[0]
        bindings = topology.control_queue(agent_id, ["default"]).bindings
        world.broker.unbind(queue, bindings)
        await world.publish(cancel_request(waiting))
        await world.clock.run_until(lambda: world.store.jobs[waiting].state is JobState.CANCELLED, within=10)
        await world.clock.run_until(
            lambda: world.broker.publish(_probe("all")) is PublishResult.CONFIRMED, within=10
        )
        await world.clock.run_until(world.settled, within=120)
        assert {world.store.jobs[job_id].state for job_id in running} == {JobState.SUCCEEDED}
        assert not world.workshop.runs[waiting]


def _probe(key: str) -> Message:
    return Message(
        topology.CONTROL, key, b"", "application/x-none", str(uuid4()), "probe", {}, mandatory=True
    )


def _summary(world: World, job_id: UUID) -> tuple[JobState, int, int]:
    row = world.store.jobs[job_id]
    return row.state, row.attempt, row.losses
