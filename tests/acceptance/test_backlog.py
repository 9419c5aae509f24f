"""Point 1 under strain, on real processes: waiting is not losing, and what is lost is noticed."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from tests.acceptance.warren import Warren, until
from tests.servers.kinds import RabbitMQServer

from warrener_client import JobFailed, SyncClient
from warrener_contracts.topology import dispatch_queue

MODULE = "tests.acceptance.backlog_handlers"
JOBS = 30
LIMIT = 5
SMALL = (
    'rabbit_policy:parse_set(<<"{vhost}">>, <<"small">>, <<"^{queue}$">>, <<"{{\\"max-length\\": 5}}">>,'
    ' <<"1">>, <<"queues">>, <<"story">>)'
)

T = TypeVar("T")


def test_1_what_a_purged_and_a_deleted_queue_held_is_dispatched_again(warren: Warren) -> None:
    warren.start_all(MODULE)
    warren.services[-1].end()  # the job types are known, and nobody runs them
    with SyncClient(warren.broker_url) as client:
        jobs = [client.request(name) for name in ("purged", "deleted") for _ in range(JOBS)]
        until(lambda: all_wait(warren), "all to wait")
        on_broker(warren, partial(purge, name="purged"))
        on_broker(warren, partial(delete, name="deleted"))
        until(lambda: all_wait(warren), "the store's word to be in the queues again")
        warren.start("agent", MODULE)
        for job in jobs:
            job.result(timeout=60)
    assert runs(warren) == Counter({(str(job.job_id), 1): 1 for job in jobs}), "each ran once, as attempt 1"


def test_1_failing_jobs_that_wait_too_long_end_after_one_start_each(warren: Warren) -> None:
    warren.start_all(MODULE, slots=2)
    with SyncClient(warren.broker_url) as client:
        jobs = [client.request("fails", policy={"start_timeout": "1s"}) for _ in range(100)]
        for job in jobs:
            with pytest.raises(JobFailed):
                job.result(timeout=60)
    assert runs(warren) == Counter({(str(job.job_id), 1): 1 for job in jobs}), "nothing runs uncharged"


def test_2_a_full_queue_holds_up_only_its_own_jobs(warren: Warren, broker: RabbitMQServer) -> None:
    vhost = unquote(urlsplit(warren.broker_url).path[1:])
    warren.start_all(MODULE)
    warren.services[-1].end()  # the job types are known, and nobody runs them
    warren.start("scheduler")
    warren.start("supervisor")
    warren.wait_ready()
    broker.evaluate(SMALL.format(vhost=vhost, queue=dispatch_queue("purged").name))
    with SyncClient(warren.broker_url) as client:
        full = [client.request("purged") for _ in range(2 * LIMIT)]
        # A queue refuses what comes once it holds more: of what is published in one go before, it takes all.
        until(lambda: waiting(warren)["purged"] > LIMIT, "the queue to be full")
        full += [client.request("purged") for _ in range(4 * JOBS)]
        warren.start("agent", MODULE, WARRENER_AGENT_QUEUES='["deleted"]')
        for _ in range(3):
            others = [client.request("deleted") for _ in range(JOBS)]
            for job in others:
                job.result(timeout=60)
        assert waiting(warren)["purged"] < JOBS, "the rest waits in the store"
        warren.start("agent", MODULE)
        for job in full:
            job.result(timeout=60)
    started = runs(warren)
    assert {started[str(job.job_id), 1] for job in full} == {1}, "each ran once, as attempt 1"


# -- looking -----------------------------------------------------------------------------------------------


def runs(warren: Warren) -> Counter[tuple[str, int]]:
    """How often each attempt was begun."""
    lines = (line.split() for line in (warren.folder / "runs").read_text().splitlines())
    return Counter((job_id, int(attempt)) for job_id, attempt in lines)


def waiting(warren: Warren) -> dict[str, int]:
    """How many messages wait in each of the two queues."""
    return on_broker(warren, ready_in_both)


def all_wait(warren: Warren) -> bool:
    """True if the queues hold as many messages as there are jobs, or more: repeats do no harm."""
    found = waiting(warren)
    return all(found.get(name, 0) >= JOBS for name in ("purged", "deleted"))


async def ready_in_both(channel: AbstractChannel) -> dict[str, int]:
    """Over one connection, as each new one costs more than the look; nothing of a missing queue and after."""
    found: dict[str, int] = {}
    for name in ("purged", "deleted"):
        try:
            queue = await channel.get_queue(dispatch_queue(name).name)
        except aio_pika.exceptions.ChannelNotFoundEntity:
            break  # which has closed the channel
        found[name] = queue.declaration_result.message_count or 0
    return found


async def purge(channel: AbstractChannel, name: str) -> None:
    await (await channel.get_queue(dispatch_queue(name).name)).purge()


async def delete(channel: AbstractChannel, name: str) -> None:
    await channel.queue_delete(dispatch_queue(name).name)


def on_broker(warren: Warren, do: Callable[[AbstractChannel], Awaitable[T]]) -> T:
    async def once() -> T:
        async with await aio_pika.connect(warren.broker_url) as connection:
            return await do(await connection.channel())

    return asyncio.run(once())
