"""A consumer on a broker: outages lose nothing and bury nothing, and no stalled consumer goes unnoticed
(G8)."""

import asyncio
import gc
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest
from structlog.testing import capture_logs

from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.bus.port import Subscription
from warrener_runtime.bus.types import Delivery, PublishResult
from warrener_runtime.health import current_health_registry
from warrener_runtime.lifecycle import Consumer, ConsumerStalled, HealthRegistry, NotReady
from warrener_runtime.virtual_clock import VirtualClock

QUEUE = "messages"
DELIVERY_LIMIT = 3


@dataclass(frozen=True)
class Binding:
    exchange: str = "post"
    key: str = "#"


@dataclass(frozen=True)
class Exchange:
    name: str
    kind: str = "topic"
    alternate: str | None = None


@dataclass(frozen=True)
class Queue:
    name: str
    arguments: Mapping[str, str | int]
    bindings: Sequence[Binding] = (Binding(),)
    exclusive: bool = False


@dataclass(frozen=True)
class Topology:
    exchanges: Sequence[Exchange]
    queues: Sequence[Queue]


TOPOLOGY = Topology(
    [Exchange("post"), Exchange("grave")],
    [
        Queue(
            QUEUE,
            {"x-queue-type": "quorum", "x-delivery-limit": DELIVERY_LIMIT, "x-dead-letter-exchange": "grave"},
        ),
        Queue("graveyard", {"x-queue-type": "quorum"}, [Binding("grave")]),
    ],
)


@dataclass(frozen=True)
class Message:
    message_id: str
    exchange: str = "post"
    routing_key: str = "a"
    content_type: str = "text/plain"
    type: str = "message"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    persistent: bool = True
    mandatory: bool = True

    @property
    def body(self) -> bytes:
        return self.message_id.encode()


class Office:
    """A service's handling of its messages; a test may take its store away."""

    def __init__(self) -> None:
        self.handled: list[str] = []
        self.store_is_up = True
        self.tries = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def handle(self, subscription: Subscription, batch: list[Delivery]) -> None:
        self.tries += 1
        await self.gate.wait()
        if not self.store_is_up:
            raise ConnectionError("the store does not answer")
        self.handled += [delivery.body.decode() for delivery in batch]
        await subscription.ack(batch)


@dataclass
class Scene:
    """A broker, a service's consumer on it, and the clock that both go by."""

    clock: VirtualClock
    broker: MemoryBroker
    bus: MemoryBus
    office: Office
    health_registry: HealthRegistry
    consumer: Consumer

    async def send(self, *names: str) -> None:
        results = await self.bus.publish([Message(name) for name in names])
        assert set(results) == {PublishResult.CONFIRMED}
        await self.clock.settle()

    async def complaints(self) -> list[str]:
        """The errors of the checks for /ready."""
        found: list[str] = []
        for check in self.health_registry.checks.values():
            try:
                await check()
            except NotReady as error:
                found.append(str(error))
        return found


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    clock = VirtualClock()
    broker = MemoryBroker(clock)
    bus, office, health_registry = MemoryBus(broker), Office(), HealthRegistry(consumer_stall_timeout=120)
    current_health_registry.set(health_registry)
    await bus.start()
    await bus.declare(TOPOLOGY)
    consumer = Consumer("office", bus, QUEUE, 10, office.handle, clock=clock, stalled_after=15)
    with capture_logs():
        yield Scene(clock, broker, bus, office, health_registry, consumer)
        await consumer.stop()
        await bus.close()


async def test_messages_are_handled_and_acknowledged(scene: Scene) -> None:
    await scene.consumer.start()
    await scene.send("a", "b", "c")
    assert scene.office.handled == ["a", "b", "c"]
    assert scene.broker.ready(QUEUE) == 0
    assert await scene.complaints() == []


async def test_a_batch_that_is_handled_is_freed_though_nothing_follows_it(scene: Scene) -> None:
    """Ten bodies of 1 MiB kept a quiet scheduler 10 MiB larger than before."""
    await scene.consumer.start()
    await scene.send("large")
    assert scene.office.handled == ["large"]
    found: list[object] = gc.get_objects()
    # By `type`: `isinstance` looks at the attributes of lazy objects, such as Django's settings.
    batches = [cast("list[object]", one) for one in found if type(one) is list]
    assert not [batch for batch in batches if any(is_large(part) for part in batch)]


def is_large(part: object) -> bool:
    return isinstance(part, Delivery) and part.body == b"large"


async def test_a_portion_is_settled_before_the_next_and_an_outage_holds_up_the_rest(scene: Scene) -> None:
    office = scene.office
    consumer = Consumer("office", scene.bus, QUEUE, 4, office.handle, max_batch_size=2, clock=scene.clock)
    office.gate.clear()
    await consumer.start()
    await scene.send("a", "b", "c", "d", "e")
    office.store_is_up = False
    office.gate.set()
    await scene.clock.advance(60)
    assert office.handled == []
    office.store_is_up = True
    tries = office.tries
    await scene.clock.advance(10)
    assert office.handled == ["a", "b", "c", "d", "e"]
    assert office.tries == tries + 3
    assert scene.broker.ready(QUEUE) == 0
    await consumer.stop()


async def test_an_outage_of_the_store_buries_nothing_however_long_it_lasts(scene: Scene) -> None:
    """A rejection would count as a delivery, and the fourth would dead-letter good work."""
    await scene.consumer.start()
    scene.office.store_is_up = False
    await scene.send("a", "b")
    await scene.clock.advance(600)
    assert scene.office.tries > 10 * DELIVERY_LIMIT
    assert await scene.complaints() == [
        f"messages of queue {QUEUE} cannot be handled: ConnectionError: the store does not answer"
    ]
    scene.office.store_is_up = True
    await scene.clock.advance(10)
    assert scene.office.handled == ["a", "b"]
    assert scene.broker.ready("graveyard") == 0
    assert await scene.complaints() == []


@pytest.fixture
async def prober(scene: Scene) -> AsyncIterator[Consumer]:
    """A consumer that can find out whether its store answers."""

    async def probe() -> None:
        if not scene.office.store_is_up:
            raise ConnectionError("the store does not answer")

    consumer = Consumer(
        "office", scene.bus, QUEUE, 10, scene.office.handle, clock=scene.clock, probe=probe, stalled_after=15
    )
    await consumer.start()
    yield consumer
    await consumer.stop()


async def test_7_who_cannot_handle_gives_back_after_seconds_and_comes_back_by_itself(
    scene: Scene, prober: Consumer
) -> None:
    scene.office.store_is_up = False
    await scene.send("a", "b")
    await scene.clock.advance(4)
    assert scene.broker.ready(QUEUE) == 0, "a short outage is waited for in place"
    await scene.clock.advance(300)
    assert scene.broker.ready(QUEUE) == 2, "for others"
    assert scene.broker.backlog(QUEUE).consumers == 0
    assert prober.is_paused
    assert await scene.complaints() == [
        f"messages of queue {QUEUE} cannot be handled: ConnectionError: the store does not answer; "
        "they were returned to the queue"
    ]
    assert scene.health_registry.reason is None, "it is not stalled"
    scene.office.store_is_up = True
    await scene.clock.advance(15)
    assert sorted(scene.office.handled) == ["a", "b"]
    assert await scene.complaints() == []
    assert not prober.is_paused


async def test_7_who_finds_nothing_left_to_handle_is_ready_again(scene: Scene, prober: Consumer) -> None:
    scene.office.store_is_up = False
    await scene.send("a")
    await scene.clock.advance(20)
    other = await scene.bus.subscribe(QUEUE, prefetch=10)
    assert len(await anext(aiter(other))) == 1
    scene.office.store_is_up = True
    await scene.clock.advance(15)
    assert await scene.complaints() == []


async def test_7_a_probe_that_is_wrong_buries_nothing_for_long(scene: Scene) -> None:
    """Each time it is given back counts as a delivery."""

    async def probe() -> None: ...

    consumer = Consumer("office", scene.bus, QUEUE, 10, scene.office.handle, clock=scene.clock, probe=probe)
    await consumer.start()
    scene.office.store_is_up = False
    await scene.send("a")
    await scene.clock.advance(300)
    assert scene.broker.ready("graveyard") == 0
    scene.office.store_is_up = True
    await scene.clock.advance(15)
    assert scene.office.handled == ["a"]
    await consumer.stop()


async def test_7_draining_does_not_wait_for_a_probe(scene: Scene, prober: Consumer) -> None:
    scene.office.store_is_up = False
    await scene.send("a")
    await scene.clock.advance(20)
    assert prober.is_paused
    await prober.drain()
    assert scene.broker.ready(QUEUE) == 1


async def test_13_an_outage_is_one_line_and_so_is_its_end(scene: Scene, prober: Consumer) -> None:
    with capture_logs() as lines:
        scene.office.store_is_up = False
        await scene.send("a")
        await scene.clock.advance(60)
        scene.office.store_is_up = True
        await scene.clock.advance(15)
    about = [line for line in lines if str(line["action"]).startswith("consumer.")]
    assert [line["action"] for line in about] == [
        "consumer.handling_failed",
        "consumer.released",
        "consumer.recovered",
    ]
    assert about[0]["error"] == "ConnectionError: the store does not answer"
    assert about[0]["exc_info"] is None
    assert about[2]["failures"] > 3


async def test_pauses_grow_while_an_outage_lasts(scene: Scene) -> None:
    await scene.consumer.start()
    scene.office.store_is_up = False
    await scene.send("a")
    await scene.clock.advance(60)
    assert scene.office.tries < 20


async def test_draining_finishes_what_runs_and_takes_nothing_new(scene: Scene) -> None:
    await scene.consumer.start()
    scene.office.gate.clear()
    await scene.send("a")
    draining = asyncio.create_task(scene.consumer.drain())
    await scene.clock.settle()
    assert not draining.done()
    scene.office.gate.set()
    await draining
    await scene.send("b")
    assert scene.office.handled == ["a"]
    assert scene.broker.ready(QUEUE) == 1


async def test_draining_in_an_outage_gives_the_batch_back(scene: Scene) -> None:
    await scene.consumer.start()
    scene.office.store_is_up = False
    await scene.send("a")
    await scene.consumer.drain()
    await scene.consumer.stop()
    await scene.bus.close()
    assert scene.broker.ready(QUEUE) == 1
    assert scene.broker.ready("graveyard") == 0


async def test_a_broken_connection_is_survived(scene: Scene) -> None:
    await scene.consumer.start()
    await scene.send("a")
    scene.broker.drop_connections()
    await scene.clock.settle()
    await scene.send("b")
    assert scene.office.handled == ["a", "b"]


async def test_g8_stalled_means_not_ready_and_then_a_fresh_process(scene: Scene) -> None:
    await scene.consumer.start()
    scene.broker.stop()
    await scene.clock.advance(10)
    assert await scene.complaints() == []  # a reconnect takes that long
    await scene.clock.advance(10)
    assert await scene.complaints() == ["office receives nothing from the broker"]
    assert scene.health_registry.reason is None
    await scene.clock.advance(110)
    assert isinstance(scene.health_registry.reason, ConsumerStalled)


async def test_g8_a_recovered_consumer_is_ready_and_its_timer_restarts(scene: Scene) -> None:
    await scene.consumer.start()
    for _ in range(3):
        scene.broker.stop()
        await scene.clock.advance(100)
        scene.broker.start()
        await scene.clock.advance(5)
    assert await scene.complaints() == []
    assert scene.health_registry.reason is None


async def test_g8_a_queue_that_was_deleted_is_consumed_again(scene: Scene) -> None:
    await scene.consumer.start()
    scene.broker.delete_queue(QUEUE)
    await scene.clock.advance(20)
    await scene.send("a")
    assert scene.office.handled == ["a"]
    assert await scene.complaints() == []


async def test_g8_a_queue_that_is_not_there_is_noticed(scene: Scene) -> None:
    lost = Consumer(
        "lost", scene.bus, "nowhere", 10, scene.office.handle, clock=scene.clock, stalled_after=15
    )
    await lost.start()
    await scene.clock.advance(20)
    assert await scene.complaints() == ["lost receives nothing from the broker"]
    await lost.stop()


async def test_a_stopped_consumer_is_unregistered(scene: Scene) -> None:
    await scene.consumer.start()
    assert scene.health_registry.checks
    await scene.consumer.stop()
    assert not scene.health_registry.checks


async def test_g8_a_starved_consumer_resubscribes_and_counts_as_stalled_until_it_receives(
    scene: Scene,
) -> None:
    await scene.consumer.start()
    scene.broker.mute(QUEUE)
    await scene.send("a")
    await scene.clock.advance(14)
    assert scene.consumer.live, "it may come yet"
    before = scene.consumer.epoch
    await scene.clock.advance(7)
    assert scene.consumer.epoch != before, "another channel"
    assert not scene.consumer.live, "until something comes"
    await scene.clock.advance(20)
    assert await scene.complaints() == ["office receives nothing from the broker"]
    scene.broker.mute(QUEUE, muted=False)
    await scene.clock.advance(10)
    assert scene.office.handled == ["a"]
    assert scene.consumer.live
    assert not await scene.complaints()
