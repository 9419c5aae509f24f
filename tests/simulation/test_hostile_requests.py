"""Batches full of bad requests, below every limit, hold up nobody: good requests behind them go first."""

import json

import pytest
from tests.simulation.test_starved_requests import STATEMENT, slowed
from tests.simulation.workload import request
from tests.simulation.world import World

from warrener_contracts.codec import decode
from warrener_contracts.messages import BATCH_TYPE, Message
from warrener_contracts.topology import REQUESTS, REQUESTS_QUEUE
from warrener_runtime.publishing import publish_all

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
