"""Requests under strain: bad ones hold up nobody, and what a starved machine has confirmed is accepted."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.simulation.checked_store import CheckedStore
from tests.simulation.workload import request
from tests.simulation.world import World

from warrener_contracts.codec import decode
from warrener_contracts.messages import BATCH_TYPE, Message
from warrener_contracts.topology import REQUESTS, REQUESTS_QUEUE
from warrener_runtime.publishing import publish_all

STARVED = 2207
STATEMENT = 0.1
"""Seconds that the store takes for a statement."""
CUT_EVERY = 10
"""Seconds between two losses of all connections."""
PATIENCE = 120
"""Seconds. One by one, with a note before and after, they took longer than the time between two losses."""


def slowed(call: Callable[..., Awaitable[Any]], world: World) -> Callable[..., Awaitable[Any]]:
    async def slow(*args: Any, **options: Any) -> Any:
        await world.clock.sleep(STATEMENT)
        return await call(*args, **options)

    return slow


async def return_all(world: World) -> None:
    """Take all that waits, and lose the connection."""
    subscription = await world.producer.subscribe(REQUESTS_QUEUE.name, prefetch=2 * STARVED)
    taken = 0
    async for batch in subscription:
        taken += len(batch)
        if taken == STARVED:
            break
    await subscription.close()


async def test_4_requests_that_lost_connections_returned_are_accepted_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with World(4, schedulers=1, supervisors=1, agents=1, rests=(5.0,)) as world:
        await world.clock.advance(10)  # the job types are announced
        scheduler = world.processes[0]
        scheduler.life.strike_at(0, effect_first=False)
        await world.clock.advance(2)
        assert scheduler.deaths == 1
        requested = [request(world, "quick", number=number) for number in range(STARVED)]
        await publish_all(world.producer, [message for _, message in requested], clock=world.clock)
        for _ in range(3):
            await return_all(world)
        for name in ("insert_jobs", "jobs_by_id", "park", "parked", "forget_parked"):
            monkeypatch.setattr(world.store, name, slowed(getattr(world.store, name), world))
        wanted = {job_id for job_id, _ in requested}
        for _ in range(PATIENCE // CUT_EVERY):
            await world.clock.advance(CUT_EVERY)
            world.broker.drop_connections()
        assert wanted <= world.store.jobs.keys(), "each is accounted for"
        assert world.broker.ready(REQUESTS_QUEUE.name) == 0
        assert not await CheckedStore.parked(world.store)
        assert scheduler.deaths == 1


BATCHES, BAD_OBJECTS, GOOD = 10, 1_100, 20


def hostile_batch(number: int) -> Message:
    """Valid requests of a job type that no agent has announced."""
    objects = [
        {
            "specversion": "1.0",
            "type": "job.requested.v1",
            "source": f"h{number}",
            "padding": "x" * 400,  # each batch is so large that it is handled by itself
            "id": f"{place}",
            "data": {"job_type": "no"},
        }
        for place in range(BAD_OBJECTS)
    ]
    body = json.dumps(objects, separators=(",", ":")).encode()
    return Message(REQUESTS, "no", body, BATCH_TYPE, f"hostile-{number}", "batch", {})


async def test_14_good_requests_do_not_wait_behind_batches_of_bad_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with World(14, schedulers=1, supervisors=1, agents=1) as world:
        await world.clock.advance(10)  # the job types are announced
        good = [request(world, "quick", number=number) for number in range(GOOD)]
        for name in ("insert_jobs", "jobs_by_id"):
            monkeypatch.setattr(world.store, name, slowed(getattr(world.store, name), world))
        hostile = [hostile_batch(number) for number in range(BATCHES)]
        await publish_all(world.producer, [*hostile, *(message for _, message in good)], clock=world.clock)
        await world.clock.advance(9 * STATEMENT)  # each batch takes a statement at least
        wanted = {job_id for job_id, _ in good}
        assert wanted <= world.store.jobs.keys(), "the good ones are accepted"
        early = await world.store.parked(limit=100_000)
        assert len(early) < BATCHES * 100, "most bad batches are still to come"

        await world.clock.advance(20)
        assert world.broker.ready(REQUESTS_QUEUE.name) == 0
        parked = await world.store.parked(limit=100_000)
        assert {one.reason for one in parked} == {"unknown_job_type"}
        assert sum(len(decode(one.body, one.content_type)) for one in parked) == BATCHES * BAD_OBJECTS
        assert len(parked) < BATCHES * 110, "a hundred of each batch alone, the others together"
        assert world.store.jobs.keys() == wanted
