"""A dispatch that ends each agent that reads it, before it is claimed, is given up after few deaths."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from tests.simulation.workload import slow_request
from tests.simulation.world import World, living

from warrener_contracts.events import AttemptDispatched
from warrener_contracts.inbox import Inbox
from warrener_contracts.state_machine import JobState
from warrener_runtime.bus import Delivery

MARK = 987654321
DEATHS_OF_A_DISPATCH = 4


@pytest.mark.parametrize("agents", [1, 3])
async def test_4_a_dispatch_that_ends_its_agents_unread_is_given_up_after_four_deaths(
    agents: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths = 0

    read = Inbox.read

    async def read_or_die(inbox: Inbox, deliveries: Sequence[Delivery]) -> Any:
        nonlocal deaths
        if inbox.kinds == {AttemptDispatched} and any(str(MARK).encode() in one.body for one in deliveries):
            deaths += 1
            living.get().life.dead.set()
            await asyncio.Event().wait()
        return await read(inbox, deliveries)

    monkeypatch.setattr(Inbox, "read", read_or_die)
    async with World(1, agents=agents, rests=(1.0,)) as world:
        bad, good = uuid4(), [uuid4() for _ in range(20)]
        await world.publish(slow_request(bad, MARK), *(slow_request(each, 1) for each in good))
        await world.clock.run_until(world.settled, within=1200)

        row = world.store.jobs[bad]
        assert row.state is JobState.DEAD
        assert row.losses <= row.policy.quarantine_threshold
        assert deaths <= DEATHS_OF_A_DISPATCH * row.attempt, f"{deaths} deaths of {row.attempt} attempts"
        assert all(world.store.jobs[each].state is JobState.SUCCEEDED for each in good)


async def test_4_messages_that_lost_connections_returned_are_charged_with_nothing() -> None:
    async with World(1, agents=1, rests=(1.0,)) as world:
        jobs = [uuid4() for _ in range(12)]
        await world.publish(*(slow_request(each, 2) for each in jobs))
        for _ in range(8):
            await world.clock.advance(0.5)
            world.broker.drop_connections()
        await world.clock.run_until(world.settled, within=600)
        rows = [world.store.jobs[each] for each in jobs]
        assert {(row.state, row.losses, row.attempt) for row in rows} == {(JobState.SUCCEEDED, 0, 1)}
