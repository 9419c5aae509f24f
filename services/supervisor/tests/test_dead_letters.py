"""Dead-lettered, parked and unroutable messages are stored, published again, judged, or requeued."""

from collections.abc import AsyncIterator, Sequence

import pytest
from services.supervisor.tests.stage import FRESH, JOB, NOW, SupervisorHarness, event, make, opened
from tests.store_rows import parked_message

from warrener_contracts import events, topology
from warrener_contracts.messages import Message, build_message, build_parked_message
from warrener_contracts.state_machine import JobState
from warrener_runtime.bus import Delivery, Subscription
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.virtual_clock import VirtualClock
from warrener_store import StoreUnavailable
from warrener_store.jobs.rows import JobRow
from warrener_store.memory import MemoryStore
from warrener_store.parked.rows import ParkedMessage
from warrener_supervisor.dead_letters import (
    DeadLetterConsumer,
    find_missing_queue,
    given_up_dispatches,
    to_parked_message,
)
from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.effects import SupervisorPorts
from warrener_supervisor.metrics import SupervisorMetrics
from warrener_supervisor.requeue import ParkedMessageRequeuer

QUEUE = topology.dispatch_queue("default")
LIMIT = 20
NEWS = Message(
    exchange=topology.STATUS,
    routing_key="attempt.succeeded.flights.load",
    body=b"{}",
    content_type="application/cloudevents+json",
    message_id="done",
    type="attempt.succeeded.v1",
    headers={"traceparent": "00-1"},
)


@pytest.fixture
async def unopened() -> AsyncIterator[SupervisorHarness]:
    one = SupervisorHarness()
    yield one
    await one.close()


async def open_with(harness: SupervisorHarness, row: JobRow) -> None:
    await harness.open(row)
    await harness.bus.declare(topology.Topology((), (QUEUE,)))
    data = row.dispatched_data()
    await harness.publish(events.AttemptDispatched(id=f"{JOB}:1", source="test", data=data))


async def give_up(harness: SupervisorHarness) -> None:
    """Return the message until the broker gives it up, as a connection does that breaks again and again."""
    subscription = await harness.bus.subscribe(QUEUE.name, prefetch=1)
    returns = 0
    async for batch in subscription:
        await subscription.reject(batch, requeue=True)
        returns += 1
        if returns > LIMIT:
            break
    await subscription.close()
    await harness.clock.advance(1)


async def next_batch(subscription: Subscription) -> list[Delivery]:
    async for batch in subscription:
        return batch
    raise AssertionError("expected a delivery, got the end")


async def test_what_is_parked_or_bound_nowhere_is_stored_once_with_its_reason(
    harness: SupervisorHarness,
) -> None:
    parked = build_parked_message(
        queue="warrener.requests",
        body=b"{",
        reason="not_json",
        detail="no",
        message_id="p",
        content_type=None,
    )
    nowhere = Message(topology.RETURN, "1s.nobody.flights.load", b"{}", "application/json", "n", "x", {})
    await harness.publish(parked, parked._replace(headers={**parked.headers}), nowhere, then=1)
    found = {one.reason: (one.queue, one.detail, one.body) for one in await harness.store.parked()}
    assert len(await harness.store.parked()) == 2
    assert found["not_json"] == ("warrener.requests", "no", b"{")
    assert "nobody.flights.load" in found["unroutable"][1]


async def test_a_dispatch_that_the_broker_gives_up_is_a_lost_attempt() -> None:
    row = make(JobState.QUEUED, wake_at=FRESH)
    async with opened(row) as harness:
        await harness.bus.declare(topology.Topology((), (topology.dispatch_queue("default"),)))
        await harness.publish(events.AttemptDispatched(id="d", source="test", data=row.dispatched_data()))
        subscription = await harness.bus.subscribe("warrener.queue.default", prefetch=1)
        async for batch in subscription:
            await subscription.reject(batch, requeue=False)
            break
        await harness.clock.advance(1)
        assert not await harness.store.parked(), "its job goes on: nobody has to do anything"
        assert harness.all_of(events.AttemptLost)
        assert (await harness.row()).attempt == 2


async def test_4_one_that_never_starts_however_often_it_is_given_out_is_lost_in_the_end(
    unopened: SupervisorHarness,
) -> None:
    await open_with(unopened, make(JobState.QUEUED))
    for pause in (5, 15, 60):
        await give_up(unopened)
        row = await unopened.row()
        assert (row.state, row.attempt, row.losses, row.error) == (JobState.QUEUED, 1, 0, None), "uncharged"
        assert unopened.broker.ready(QUEUE.name) == 0
        await unopened.clock.advance(pause)
        assert unopened.broker.ready(QUEUE.name) == 1
    await give_up(unopened)
    row = await unopened.row()
    assert (row.attempt, row.losses) == (2, 1), "it may end each agent that reads it"
    assert not await unopened.store.parked()


@pytest.mark.parametrize(
    "death",
    [
        {"queue": ["warrener.commands.supervisor"], "reason": {"delivery": "limit"}, "count": 1},
        {
            "queue": "warrener.commands.supervisor",
            "reason": "delivery_limit",
            "count": 2,
            "exchange": "",
            "routing-keys": ["warrener.commands.supervisor"],
        },
    ],
)
def test_2_a_death_that_its_sender_has_written_changes_nothing(death: dict[str, object]) -> None:
    command = build_message(event(events.ScheduleResumeRequested, name="nightly"))
    given_up = "9" * 5000
    delivery = Delivery(
        command.body,
        "dead.commands.supervisor",
        topology.DEAD,
        False,  # noqa: FBT003 - as on the wire
        1,
        1,
        headers={"x-death": [death], "warrener-given-up": given_up, "warrener-reason": [None]},
    )
    assert given_up_dispatches(delivery, 10) is None
    assert to_parked_message(delivery, NOW).body == command.body


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.SUCCEEDED])
async def test_4_what_runs_or_is_over_does_not_need_the_message(
    unopened: SupervisorHarness, state: JobState
) -> None:
    row = make(state)
    await open_with(unopened, row)
    await give_up(unopened)
    await unopened.clock.advance(5)
    assert unopened.broker.ready(QUEUE.name) == 0
    after = await unopened.row()
    assert (after.state, after.attempt, after.losses) == (state, 1, 0)


@pytest.fixture
async def clock() -> VirtualClock:
    return VirtualClock(NOW)


@pytest.fixture
async def broker(clock: VirtualClock) -> AsyncIterator[MemoryBroker]:
    one = MemoryBroker(clock)
    yield one
    one.stop()


@pytest.fixture
async def bus(broker: MemoryBroker) -> AsyncIterator[MemoryBus]:
    one = MemoryBus(broker)
    await one.start()
    await one.declare(topology.TOPOLOGY)
    yield one
    await one.close()


class UnavailableStore(MemoryStore):
    """A store that is away when it is to park or to forget."""

    away = False

    async def park(self, messages: Sequence[ParkedMessage]) -> None:
        if self.away:
            raise StoreUnavailable("away")
        await super().park(messages)

    async def forget_parked(self, messages: Sequence[ParkedMessage]) -> None:
        if self.away:
            raise StoreUnavailable("away")
        await super().forget_parked(messages)


@pytest.fixture
def store() -> UnavailableStore:
    return UnavailableStore()


@pytest.fixture
def dead_letters(bus: MemoryBus, store: MemoryStore, clock: VirtualClock) -> DeadLetterConsumer:
    return DeadLetterConsumer(SupervisorPorts(bus, store, clock, Timings()), SupervisorMetrics())


@pytest.fixture
def requeuer(bus: MemoryBus, store: MemoryStore, clock: VirtualClock) -> ParkedMessageRequeuer:
    return ParkedMessageRequeuer(SupervisorPorts(bus, store, clock, Timings()))


async def test_3_news_that_found_no_queue_is_published_again_as_it_was_once_and_not_parked(
    bus: MemoryBus, broker: MemoryBroker, store: UnavailableStore, dead_letters: DeadLetterConsumer
) -> None:
    broker.delete_queue(topology.STATUS_QUEUE.name)
    stray = NEWS._replace(exchange=topology.RETURN, routing_key="1s.nobody", message_id="stray")
    await bus.publish([NEWS, stray])
    subscription = await bus.subscribe(topology.UNROUTABLE_QUEUE.name, prefetch=10)
    batch = await next_batch(subscription)
    store.away = True
    for _ in range(3):  # as a Consumer does: the same batch, until it is handled
        with pytest.raises(StoreUnavailable):
            await dead_letters.handle(subscription, batch)
    store.away = False
    await dead_letters.handle(subscription, batch)
    [again] = await next_batch(await bus.subscribe(topology.STATUS_QUEUE.name, prefetch=10))
    assert (again.headers["warrener-routing-key"], again.body, again.message_id) == (
        NEWS.routing_key,
        NEWS.body,
        "done",
    )
    assert again.headers["traceparent"] == "00-1"
    assert [one.message_id for one in await store.parked()] == ["stray"]
    assert subscription.nothing_unacked


def test_3_what_died_in_a_queue_is_not_misrouted() -> None:
    gone = Delivery(b"{}", NEWS.routing_key, topology.STATUS, redelivered=False, tag=1, epoch=1)
    assert find_missing_queue(gone) is topology.STATUS_QUEUE
    assert find_missing_queue(gone._replace(headers={"x-death": [{"queue": "warrener.status"}]})) is None
    assert find_missing_queue(gone._replace(exchange="warrener.return")) is None
    assert find_missing_queue(gone._replace(exchange=topology.DELAY, routing_key="2s.default.x")) is None, (
        "no such level"
    )


async def test_13_what_found_no_delay_queue_is_published_again_and_comes_down_it(
    bus: MemoryBus,
    broker: MemoryBroker,
    store: MemoryStore,
    dead_letters: DeadLetterConsumer,
    clock: VirtualClock,
) -> None:
    await bus.declare(topology.TOPOLOGY.with_queues([QUEUE]))
    broker.delete_queue(topology.DELAY_LEVELS[1].queue)
    delayed = NEWS._replace(exchange=topology.DELAY, routing_key="5s.default.x")
    await bus.publish([delayed._replace(message_id=f"delayed-{number}") for number in range(80)])
    stray = await bus.subscribe(topology.UNROUTABLE_QUEUE.name, prefetch=100)
    await dead_letters.handle(stray, await next_batch(stray))
    assert not await store.parked()
    assert stray.nothing_unacked
    assert broker.ready(topology.DELAY_LEVELS[1].queue) == 80
    await clock.advance(5)
    assert broker.ready(QUEUE.name) == 80


def message(name: str, queue: str = topology.REQUESTS_QUEUE.name, detail: str = "why") -> ParkedMessage:
    return parked_message(
        name,
        queue=queue,
        reason="unknown_job_type",
        detail=detail,
        content_type="application/cloudevents+json",
        body=name.encode(),
        parked_at=NOW,
    )


def requeue(*ids: str) -> events.ParkedRequeueRequested:
    return event(events.ParkedRequeueRequested, ids=ids, by="ann")


def waiting(broker: MemoryBroker) -> list[str]:
    return [one.body.decode() for one in broker.peek(topology.REQUESTS_QUEUE.name)]


async def test_what_is_confirmed_and_whole_is_forgotten_and_no_other(
    broker: MemoryBroker, store: MemoryStore, requeuer: ParkedMessageRequeuer
) -> None:
    cut = message("cut", detail="the first 7 of 9 bytes are kept (SHA-256 00); too large")
    await store.park([message("a"), message("b"), message("nowhere", "warrener.queue.gone"), cut])
    await requeuer.carry_out([requeue("a", "nowhere", "unknown", "a", "cut")])
    assert waiting(broker) == ["a"]
    assert {one.parked_id for one in await store.parked()} == {"b", "nowhere", "cut"}


async def test_a_supervisor_that_dies_before_it_forgets_sends_again(
    broker: MemoryBroker, store: UnavailableStore, requeuer: ParkedMessageRequeuer
) -> None:
    await store.park([message("a")])
    store.away = True
    with pytest.raises(StoreUnavailable):
        await requeuer.carry_out([requeue("a")])
    store.away = False
    await requeuer.carry_out([requeue("a")])
    assert waiting(broker) == ["a", "a"]
    assert not await store.parked()


async def test_a_message_that_died_in_a_queue_goes_straight_there_and_shows_how_it_came(
    broker: MemoryBroker, store: MemoryStore, requeuer: ParkedMessageRequeuer
) -> None:
    death = {
        "queue": topology.TRIGGERS_QUEUE.name,
        "reason": "rejected",
        "exchange": "orders",
        "routing-keys": ["order.new"],
    }
    died = Delivery(
        body=b"an order",
        routing_key="dead.triggers",
        exchange="warrener.dead",
        redelivered=False,
        tag=1,
        epoch=1,
        message_id="order 7",
        headers={"x-death": [death], "traceparent": "00-1"},
    )
    parked = to_parked_message(died, NOW)
    assert (parked.exchange, parked.routing_key, parked.message_id) == ("orders", "order.new", "order 7")
    await store.park([parked])
    await requeuer.carry_out([requeue(parked.parked_id)])
    [sent] = broker.peek(topology.TRIGGERS_QUEUE.name)
    assert sent.message_id == "order 7"
    assert sent.headers == {
        "traceparent": "00-1",
        "warrener-exchange": "orders",
        "warrener-routing-key": "order.new",
        "warrener-message-id": "order 7",
        "warrener-user": "",
    }
