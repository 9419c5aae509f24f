"""What the broker has confirmed stays in the system however often its consumers crash."""

import asyncio

from tests.acceptance.store_queries import job_history, job_types_of
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient
from warrener_contracts.topology import REQUESTS_QUEUE
from warrener_runtime.bus import open_bus

MODULE = "tests.acceptance.many_handlers"
REQUESTS = 50
CRASHES = 25  # a work queue used to give a message up after 20


async def crash_with_all_in_hand(url: str) -> int:
    """A consumer as a scheduler is one, that takes all there is and dies; how many that were."""
    bus = open_bus(url, name="crashes")
    await bus.start()
    try:
        taken = 0
        async for batch in await bus.subscribe(REQUESTS_QUEUE.name, prefetch=1000):
            taken += len(batch)
            if taken >= REQUESTS:
                break
        return taken
    finally:
        await bus.close()


def test_confirmed_requests_outlive_a_crash_loop_of_schedulers(warren: Warren) -> None:
    warren.start_all(MODULE)
    scheduler = warren.services[0]
    until(lambda: job_types_of(warren), "the job types to be announced")
    scheduler.kill()
    with SyncClient(warren.broker_url) as client:
        jobs = [client.request("many") for _ in range(REQUESTS)]
        for _ in range(CRASHES):
            assert asyncio.run(crash_with_all_in_hand(warren.broker_url)) == REQUESTS
        warren.start("scheduler")
        assert [job.result(timeout=60) for job in jobs] == [1] * REQUESTS
        _, _, parked = job_history(warren, jobs[0].job_id)
    assert not parked
