"""Replies reach their requests, even if the reply queue is lost with its connection."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from warrener_client import Client, Job, NotConfirmed, RequestUnroutable
from warrener_client.replies import ReplyRouter
from warrener_client.requests import BulkEncoder, JobSpec
from warrener_client.testing import StandIn
from warrener_contracts import events
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import REQUESTS, REQUESTS_QUEUE
from warrener_runtime.bus import OutgoingMessage, PublishResult
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.telemetry import NO_CONTEXT
from warrener_runtime.virtual_clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def broker(clock: VirtualClock) -> MemoryBroker:
    return MemoryBroker(clock)


@pytest.fixture
async def client(broker: MemoryBroker, clock: VirtualClock) -> AsyncIterator[Client]:
    async with Client(bus=MemoryBus(broker), clock=clock, resend_after=60) as opened:
        yield opened


class Gate:
    """Work that ends when the test opens the gate."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.begun = asyncio.Event()

    async def work(self, _: object) -> str:
        self.begun.set()
        await self.open.wait()
        return "done"


async def until_settled(clock: VirtualClock, task: "asyncio.Task[str]", *, within: float) -> str:
    await clock.run_until(task.done, within=within)
    return await task


def waits(job: Job) -> "asyncio.Task[str]":
    return asyncio.create_task(job.result())


async def lose_answers(broker: MemoryBroker, clock: VirtualClock) -> None:
    """Restart the broker a second after the answers have come: they go with their queue."""
    await clock.advance(1)
    broker.stop()
    await clock.advance(1)
    broker.start()


async def test_after_a_reconnect_awaited_requests_are_sent_again(
    client: Client, broker: MemoryBroker, clock: VirtualClock
) -> None:
    gate = Gate()
    async with StandIn(MemoryBus(broker), {"slow.work": gate.work}, clock=clock) as warren:
        job = await client.request("slow.work")
        waiting = waits(job)
        await gate.begun.wait()
        broker.mute(f"warrener.reply.{client.address}")
        gate.open.set()
        await lose_answers(broker, clock)
        assert await until_settled(clock, waiting, within=20) == "done"
    assert len(warren.requests) == 2
    assert {request.id for request in warren.requests} == {str(job.job_id)}


async def test_a_request_from_before_the_reconnect_that_is_awaited_after_it_is_sent_again(
    client: Client, broker: MemoryBroker, clock: VirtualClock
) -> None:
    async with StandIn(MemoryBus(broker), {"quick.work": lambda _: "done"}, clock=clock):
        await client.request("quick.work")  # the first one makes the queue of replies
        broker.mute(f"warrener.reply.{client.address}")
        job = await client.request("quick.work")
        await lose_answers(broker, clock)
        await clock.advance(1)
        assert not job.is_finished
        assert await until_settled(clock, waits(job), within=5) == "done"


async def test_a_request_without_a_reply_is_sent_again_at_long_intervals(
    client: Client, broker: MemoryBroker, clock: VirtualClock
) -> None:
    gate = Gate()
    async with StandIn(MemoryBus(broker), {"slow.work": gate.work}, clock=clock) as warren:
        job = await client.request("slow.work")
        waiting = waits(job)
        await gate.begun.wait()
        await clock.advance(50)
        assert len(warren.requests) == 1
        broker.purge(f"warrener.reply.{client.address}")
        await clock.advance(30)
        assert len(warren.requests) == 2
        gate.open.set()
        assert await until_settled(clock, waiting, within=5) == "done"
        await clock.advance(300)
    assert len(warren.requests) == 2


async def test_8_replies_come_again_at_once_after_their_queue_was_deleted(
    client: Client, broker: MemoryBroker, clock: VirtualClock
) -> None:
    gate = Gate()
    async with StandIn(MemoryBus(broker), {"slow.work": gate.work}, clock=clock):
        waiting = waits(await client.request("slow.work"))
        await gate.begun.wait()
        broker.delete_queue(f"warrener.reply.{client.address}")
        gate.open.set()
        assert await until_settled(clock, waiting, within=5) == "done"


async def test_a_request_that_nobody_awaits_is_not_sent_again(
    client: Client, broker: MemoryBroker, clock: VirtualClock
) -> None:
    job = await client.request("slow.work")
    broker.restart()
    await clock.advance(300)
    assert len(broker.peek(REQUESTS_QUEUE.name)) == 1
    assert not job.is_finished


@pytest.mark.parametrize("what", ["queue", "exchange"])
async def test_a_deleted_place_of_requests_is_made_again(
    client: Client, broker: MemoryBroker, what: str
) -> None:
    if what == "queue":
        broker.delete_queue(REQUESTS_QUEUE.name)
    else:
        broker.delete_exchange(REQUESTS)
    job = await client.request("flights.load")
    assert [message.message_id for message in broker.peek(REQUESTS_QUEUE.name)] == [str(job.job_id)]


async def test_without_a_confirm_in_time_the_error_names_the_remedy(broker: MemoryBroker) -> None:
    async with Client(bus=MemoryBus(broker), confirm_timeout=0.05) as client:
        broker.stop()
        with pytest.raises(
            NotConfirmed, match=r"within 0\.05 s, got none: repeat the request with the same id"
        ):
            await client.request("flights.load")
        broker.start()
        assert await client.request("flights.load")


class UnroutableBus(MemoryBus):
    """A broker on which whatever is declared is gone at once."""

    async def publish(
        self, messages: Sequence[OutgoingMessage], *, timeout: float = 10.0
    ) -> list[PublishResult]:
        return [PublishResult.UNROUTABLE] * len(messages)


async def test_without_a_queue_for_requests_the_caller_gets_an_error(broker: MemoryBroker) -> None:
    async with Client(bus=UnroutableBus(broker)) as client:
        with pytest.raises(RequestUnroutable, match="warrener topology --check"):
            await client.request("flights.load")


NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


def requested(reply_router: ReplyRouter) -> Job:
    job_id = uuid4()
    message = BulkEncoder("shop", NOON, "address").encode(JobSpec("flights.load"), str(job_id), NO_CONTEXT)
    return Job("flights.load", reply_router.register(job_id, message, 0.0), reply_router)


def waiting(job_id: UUID) -> events.JobWaiting:
    data = events.JobWaitingData(
        job_id=job_id, job_type="flights.load", attempt=1, queue="full", reason="it is full", since=NOON
    )
    return events.JobWaiting(id="w", source="warrener/supervisor", data=data)


def test_2_a_job_shows_why_it_waits_until_it_is_finished() -> None:
    reply_router = ReplyRouter("address")
    job, other = requested(reply_router), requested(reply_router)
    assert job.waiting is None
    assert reply_router.resolve(waiting(job.job_id))
    assert job.waiting is not None
    assert (job.waiting.queue, job.waiting.reason, job.waiting.since) == ("full", "it is full", NOON)
    assert other.waiting is None
    data = events.JobFinishedData(
        job_id=job.job_id,
        job_type="flights.load",
        state=JobState.SUCCEEDED,
        attempt=1,
        requested_at=NOON,
        finished_at=NOON,
    )
    reply_router.resolve(events.JobFinished(id="f", source="warrener/supervisor", data=data))
    assert job.is_finished
    assert job.waiting is None


def test_2_so_does_a_job_that_stands_for_a_later_request() -> None:
    reply_router = ReplyRouter("address")
    job, first = requested(reply_router), uuid4()
    data = events.JobDeduplicatedData(requested_job_id=job.job_id, job_id=first, idempotency_key="k")
    reply_router.resolve(events.JobDeduplicated(id="d", source="warrener/scheduler", data=data))
    assert reply_router.resolve(waiting(first))
    assert job.waiting is not None
    assert not reply_router.resolve(waiting(uuid4())), "nobody holds a handle of that one"
