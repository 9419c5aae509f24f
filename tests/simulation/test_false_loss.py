"""Agents whose heartbeats are lost on the way run on: what is then declared lost was not (G3)."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tests.simulation.mortality import Life
from tests.simulation.world import World

from warrener_contracts import topology
from warrener_contracts.events import JobRequested, JobRequestedData
from warrener_contracts.letters import letter_for
from warrener_contracts.states import JobState
from warrener_runtime.bus import Bus, Fate, Outgoing
from warrener_runtime.lifecycle import Component

JOBS = [UUID(int=number) for number in range(1, 5)]
"""As many as an agent of the simulation has slots."""


class Muffled(World):
    """While `muffled`, no heartbeat arrives anywhere, though agents publish them."""

    muffled = False

    def _agent(self, bus: Bus, life: Life) -> Component:
        muffled: Any = MuffledBus(self, bus)
        return super()._agent(muffled, life)


class MuffledBus:
    """An agent's bus that may swallow heartbeats."""

    def __init__(self, world: Muffled, bus: Bus) -> None:
        self._world, self._bus = world, bus

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def publish(self, messages: Sequence[Outgoing], *, timeout: float = 10.0) -> list[Fate]:
        swallowed = {
            place
            for place, message in enumerate(messages)
            if self._world.muffled and message.exchange == topology.HEARTBEATS
        }
        left = [message for place, message in enumerate(messages) if place not in swallowed]
        fates = iter(await self._bus.publish(left, timeout=timeout) if left else [])
        return [Fate.CONFIRMED if place in swallowed else next(fates) for place in range(len(messages))]


async def test_g3_a_loss_that_turns_out_false_is_not_charged() -> None:
    """The next attempts wait for a slot; the agent is heard of again before the first ones end."""
    async with Muffled(7, agents=1) as world:
        await world.clock.advance(30)
        for job_id in JOBS:
            data = JobRequestedData(job_type="slow", arguments={"seconds": 60.0})
            await world.publish(letter_for(JobRequested(id=str(job_id), source="test", data=data)))
        await world.clock.advance(10)
        assert ends(world) == {(JobState.RUNNING, 1, 0)}

        world.muffled = True
        await world.clock.run_until(lambda: losses(world) == {1}, within=20)
        world.muffled = False
        await world.clock.run_until(lambda: losses(world) == {0}, within=20)
        await world.clock.run_until(world.settled, within=300)

        assert {(row.state, row.losses, row.failures) for row in world.store.jobs.values()} == {
            (JobState.SUCCEEDED, 0, 0)
        }
        assert set(world.workshop.runs.values()) == {1}, "each handler was started once"


def losses(world: World) -> set[int]:
    return {row.losses for row in world.store.jobs.values()}


def ends(world: World) -> set[tuple[JobState, int, int]]:
    return {(row.state, row.attempt, row.losses) for row in world.store.jobs.values()}
