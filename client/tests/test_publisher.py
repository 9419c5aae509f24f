"""Many requests at once: in order, pipelined, and none is lost when the broker slows or is away."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from tests.captured_service import events_in

from warrener_client import Client, JobSpec
from warrener_client.testing import StandIn
from warrener_contracts.topology import REQUESTS_QUEUE
from warrener_runtime.bus import Bus, OutgoingMessage, PublishResult
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus

Buses = Callable[[], Bus]


def numbers(count: int) -> Iterator[JobSpec]:
    return (JobSpec("number.square", {"n": n}) for n in range(count))


async def test_handles_come_in_order_and_every_job_is_answered(client: Client, new_bus: Buses) -> None:
    async with StandIn(new_bus(), {"number.square": lambda given: given["n"] ** 2}) as warren:
        jobs = [job async for job in client.request_many(numbers(1200), batch=100)]
        results = await asyncio.gather(*(job.result(timeout=60) for job in jobs))
    assert results == [n**2 for n in range(1200)]
    assert len({request.id for request in warren.requests}) == 1200


async def test_who_does_not_want_answers_gets_none_until_a_handle_is_waited_for(
    client: Client, new_bus: Buses
) -> None:
    async with StandIn(new_bus(), {"number.square": lambda given: given["n"] ** 2}) as warren:
        jobs = [job async for job in client.request_many(numbers(20), batch=5, want_results=False)]
        while len(warren.requests) < 20:
            warren.more_requests.clear()
            await warren.more_requests.wait()
        assert {request.data.reply_to for request in warren.requests} == {None}
        assert await jobs[7].result(timeout=60) == 49
    again = warren.requests[20:]
    assert {request.id for request in again} == {str(jobs[7].job_id)}
    assert not any(job.is_finished for job in jobs if job is not jobs[7])


async def test_an_asynchronous_source_will_do_and_one_batch_may_be_all(client: Client) -> None:
    async def source() -> AsyncIterator[JobSpec]:
        for spec in numbers(3):
            yield spec

    jobs = [job async for job in client.request_many(source())]
    assert len(jobs) == 3
    assert await client.request_batch([]) == []
    assert [job async for job in client.request_many([])] == []


async def test_the_same_id_twice_in_one_batch_is_one_job(client: Client, new_bus: Buses) -> None:
    spec = JobSpec("number.square", {"n": 3}, id="three")
    async with StandIn(new_bus(), {"number.square": lambda given: given["n"] ** 2}):
        first, second = await client.request_batch([spec, spec])
        assert first.job_id == second.job_id
        assert await first.result(timeout=60) == await second.result(timeout=60) == 9


async def test_the_source_is_read_no_further_than_a_few_batches_ahead(client: Client) -> None:
    read = 0

    def source() -> Iterator[JobSpec]:
        nonlocal read
        for spec in numbers(10_000):
            read += 1
            yield spec

    stream = client.request_many(source(), batch=10)
    await anext(stream)
    assert read <= 60


def queued_ids(broker: MemoryBroker) -> set[str]:
    return {event.id for event in events_in(broker.peek(REQUESTS_QUEUE.name))}


class ReluctantBus(MemoryBus):
    """Refuses every message the first time, as a full queue does."""

    refused = 0

    async def publish(
        self, messages: Sequence[OutgoingMessage], *, timeout: float = 10.0
    ) -> list[PublishResult]:
        fresh = {message.message_id for message in messages} - self._seen
        self._seen |= fresh
        self.refused += len(fresh)
        accepted = [message for message in messages if message.message_id not in fresh]
        published = await super().publish(accepted, timeout=timeout)
        results = dict(zip((message.message_id for message in accepted), published, strict=True))
        return [results.get(message.message_id, PublishResult.REFUSED) for message in messages]

    def __init__(self, broker: MemoryBroker) -> None:
        super().__init__(broker)
        self._seen: set[str] = set()


async def test_a_full_queue_slows_the_asker_and_loses_nothing() -> None:
    broker = MemoryBroker()
    reluctant = ReluctantBus(broker)
    async with Client(bus=reluctant) as client:
        jobs = [job async for job in client.request_many(numbers(50), batch=10)]
    assert reluctant.refused == 5  # a batch is one message, refused as a whole
    assert queued_ids(broker) == {str(job.job_id) for job in jobs}


async def test_a_broker_that_goes_and_comes_back_costs_time_and_no_request() -> None:
    broker = MemoryBroker()
    async with Client(bus=MemoryBus(broker)) as client:
        stream = client.request_many(numbers(50), batch=10)
        jobs = [await anext(stream)]
        broker.lose_confirms(5)
        broker.restart()
        jobs += [job async for job in stream]
    assert queued_ids(broker) == {str(job.job_id) for job in jobs}
    assert len(jobs) == 50


async def test_leaving_a_stream_early_gives_up_what_was_begun() -> None:
    broker = MemoryBroker()
    async with Client(bus=MemoryBus(broker)) as client:
        stream = client.request_many(numbers(100), batch=5)
        await anext(stream)
        await stream.aclose()
        assert not [task for task in asyncio.all_tasks() if "request_batch" in repr(task)]
