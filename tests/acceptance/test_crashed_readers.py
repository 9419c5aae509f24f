"""What the broker has confirmed stays in the system however often its consumers crash: a message that ends
each process that reads it is parked, and what waits behind it is done."""

import asyncio

from tests.acceptance.store_queries import job_types_of
from tests.acceptance.test_parked import parked
from tests.acceptance.warren import ServiceProcess, Warren, until
from tests.broker_access import publish

from warrener_client import SyncClient
from warrener_contracts.topology import REQUESTS as DOOR
from warrener_contracts.topology import REQUESTS_QUEUE
from warrener_runtime.bus import open_bus

MODULE = "tests.acceptance.many_handlers"
REQUESTS = 50
CRASHES = 25  # a work queue used to give a message up after 20
HALVINGS = 6  # of 50 messages: 25, 13, 7, 4, 2, 1
DEADLY = b"ends who reads it"
CRASH = f"""
import os, signal
import warrener_contracts.codec as codec

decode_parts = codec.decode_parts

def as_a_crash_in_c(body, *args, **options):
    if {DEADLY!r} in bytes(body):
        os.kill(os.getpid(), signal.SIGKILL)
    return decode_parts(body, *args, **options)

codec.decode_parts = as_a_crash_in_c
"""


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


def crashed(scheduler: ServiceProcess) -> bool:
    """Wait until it has crashed, or has parked the message; whether it has crashed."""

    def over() -> bool:
        return scheduler.process.poll() is not None or "crashed_readers.parked" in scheduler.log_text()

    until(over, "the scheduler to crash, or to park the message", within=150)
    return scheduler.process.poll() is not None


def test_a_message_that_ends_its_readers_is_parked_and_the_others_are_done(warren: Warren) -> None:
    warren.start_all(MODULE)
    until(lambda: job_types_of(warren), "the job types to be announced")
    warren.services[0].end()
    (warren.folder / "sitecustomize.py").write_text(CRASH)
    with SyncClient(warren.broker_url) as client:
        publish(warren.broker_url, DOOR, "many", DEADLY, message_id="poison")
        jobs = [client.request("many") for _ in range(REQUESTS - 1)]
        for _ in range(CRASHES):  # with all in hand, by a consumer that is quick to start
            assert asyncio.run(crash_with_all_in_hand(warren.broker_url)) == REQUESTS
        crashes = 0
        while crashed(warren.start("scheduler")):
            crashes += 1
        assert 5 < crashes <= HALVINGS + 5, "the last five with the poison alone in its hands"
        assert [job.result(timeout=60) for job in jobs] == [1] * (REQUESTS - 1)
        [message] = until(lambda: parked(warren), "it to be parked")
    assert (message.body, message.reason) == (DEADLY, "crashed_readers")
