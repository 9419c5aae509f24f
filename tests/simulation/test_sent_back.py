"""Messages that come back: none circles every second, and one that ends its agents unread is given up."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from tests.captured_service import events_in
from tests.simulation.workload import slow_request
from tests.simulation.world import World, living

from warrener_agent.ledger.port import Claim
from warrener_contracts import topology
from warrener_contracts.events import AttemptDispatched, AttemptDispatchedData, AttemptSucceeded, Event
from warrener_contracts.inbox import Inbox
from warrener_contracts.messages import build_message
from warrener_contracts.policy import Guarantee
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import Binding, Queue, Topology
from warrener_runtime.bus import Delivery
from warrener_runtime.lifecycle.listener import Listener

RUNS_FOR = 3600.0
SLOTS = 4
REPORTS = Queue("ear.reports", (Binding(topology.STATUS, "#"),))
DELAYED = Queue("ear.delayed", (Binding(topology.DELAY, "#"),))


async def test_a_message_of_an_attempt_that_runs_elsewhere_comes_ever_more_seldom() -> None:
    async with World(1, schedulers=0, supervisors=0, agents=1) as world:
        event = dispatched(world, "quick", number=1)
        claim, lease = Claim(event.data.job_id, 1), timedelta(seconds=RUNS_FOR)
        await world.ledger.claim([claim], agent_id="another", lease=lease)
        levels = await listen(world)

        await world.publish(build_message(event))
        await world.clock.advance(RUNS_FOR - 60)

        assert levels[:8] == ["1s"] * 8, "its holder may have died: looked at until a lease is over"
        assert levels[8:10] == ["5s", "15s"]
        assert set(levels[10:]) == {"1m"}
        assert len(levels) < 75, "an hour at one a minute, and not one a second"

        await world.clock.run_until(
            lambda: world.ledger.entries[event.data.job_id].failure is not None, within=180
        )
        assert not world.workshop.runs, "reported as lost when the lease ends"


async def test_what_waits_for_a_slot_comes_at_most_every_fifteen_seconds() -> None:
    async with World(1, schedulers=0, supervisors=0, agents=1, early_ack=1.0) as world:
        long = [dispatched(world, "slow", seconds=RUNS_FOR) for _ in range(SLOTS)]
        await world.publish(*map(build_message, long))
        await world.clock.advance(10)  # they run, their messages are acknowledged, their slots are taken
        levels = await listen(world)

        await world.publish(build_message(dispatched(world, "quick", number=1)))
        await world.clock.advance(600)

        assert levels[:7] == [*["1s"] * 5, "5s", "15s"]
        assert set(levels[7:]) == {"15s"}
        assert len(levels) < 50, "ten minutes"


@pytest.mark.parametrize("waited", [0, 10])
async def test_an_attempt_that_avoids_its_agent_is_given_back_ten_times_and_runs_there_at_last(
    waited: int,
) -> None:
    """Also one that has waited for a slot before."""
    async with World(1, schedulers=0, supervisors=0, agents=1) as world:
        levels = await listen(world)
        (agent_id,) = [one.life.agent_id for one in world.processes if one.name.startswith("agent")]
        event = dispatched(world, "quick", number=1)
        data = event.data.model_copy(update={"attempt": 2, "avoid_agents": (agent_id,)})

        message = build_message(event.model_copy(update={"data": data}))
        await world.publish(message._replace(headers={"warrener-sent-back": str(waited)}))
        await world.clock.advance(60)

        assert levels == [*["1s"] * 5, *["5s"] * 5]
        assert world.workshop.runs[event.data.job_id] == 1


async def test_an_attempt_that_avoids_its_agent_runs_at_another_one() -> None:
    async with World(1, schedulers=0, supervisors=0, agents=2) as world:
        (first, second) = [one.life.agent_id for one in world.processes if one.name.startswith("agent")]
        events = [dispatched(world, "quick", number=number) for number in range(SLOTS)]
        avoiding = [
            event.model_copy(
                update={"data": event.data.model_copy(update={"attempt": 2, "avoid_agents": (first,)})}
            )
            for event in events
        ]

        reports: list[Event[Any]] = []

        async def on_report(delivery: Delivery) -> None:
            reports.extend(events_in([delivery]))

        await world.producer.declare(Topology((), (REPORTS,)))
        await Listener(world.producer, REPORTS.name, on_report, world.clock).start()
        await world.publish(*map(build_message, avoiding))
        await world.clock.advance(60)

        succeeded = [one for one in reports if isinstance(one, AttemptSucceeded)]
        assert {one.data.agent_id for one in succeeded} == {second}
        assert len({one.data.job_id for one in succeeded}) == len(events)


async def listen(world: World) -> list[str]:
    """The delay levels that messages are published to, as they come."""
    levels: list[str] = []

    async def on_delivery(delivery: Delivery) -> None:
        levels.append(delivery.routing_key.partition(".")[0])

    await world.producer.declare(Topology((), (DELAYED,)))
    await Listener(world.producer, DELAYED.name, on_delivery, world.clock).start()
    return levels


def dispatched(world: World, job_type: str, **arguments: Any) -> AttemptDispatched:
    """A first attempt, as the scheduler says it."""
    data = AttemptDispatchedData(
        job_id=uuid4(),
        attempt=1,
        job_type=job_type,
        queue="default",
        arguments=arguments,
        guarantee=Guarantee.IDEMPOTENT,
        timeout=timedelta(seconds=2 * RUNS_FOR),
        max_attempts=3,
        requested_at=world.clock.now(),
    )
    return AttemptDispatched(id=f"{data.job_id}:1", source="test", time=world.clock.now(), data=data)


MARK = 987654321
DEATHS_OF_A_DISPATCH = 4


@pytest.mark.parametrize("agents", [1, 3])
async def test_4_a_dispatch_that_ends_its_agents_unread_is_given_up_after_four_deaths(
    agents: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths, read = 0, Inbox.read

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
