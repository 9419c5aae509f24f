"""A consumer on a broker: outages lose nothing and bury nothing, no stalled consumer goes unnoticed (G8), and
commands keep their order: one that fails by a bug stops no other (G7)."""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from structlog.testing import capture_logs
from tests.conformance.bus_rigs import make_message

from warrener_contracts.topology import Binding, Exchange, Queue, Topology
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.bus.port import Subscription
from warrener_runtime.bus.types import Delivery, PublishResult, QueueStats
from warrener_runtime.health import current_health_registry
from warrener_runtime.lifecycle import Consumer, ConsumerStalled, HealthRegistry, NotReady
from warrener_runtime.lifecycle.consumer import Handle
from warrener_runtime.lifecycle.listener import MAX_RETURNS, consume_commands
from warrener_runtime.telemetry.metrics import Metrics
from warrener_runtime.virtual_clock import VirtualClock

QUEUE, COMMANDS = "messages", "commands"
DELIVERY_LIMIT = 3
QUORUM = {"x-queue-type": "quorum"}
MORTAL = {**QUORUM, "x-dead-letter-exchange": "grave"}
TOPOLOGY = Topology(
    (Exchange("post"), Exchange("grave")),
    (
        Queue(QUEUE, (Binding("post", QUEUE),), {**MORTAL, "x-delivery-limit": DELIVERY_LIMIT}),
        Queue(COMMANDS, (Binding("post", COMMANDS),), MORTAL),
        Queue("graveyard", (Binding("grave", "#"),), QUORUM),
    ),
)


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
    started: list[Consumer]

    async def start(self, consumer: Consumer) -> Consumer:
        """Start another consumer, which is stopped at the end."""
        self.started.append(consumer)
        await consumer.start()
        return consumer

    async def consume(self, handle: Handle, prefetch: int = 10, **options: Any) -> Consumer:
        consumer = Consumer("other", self.bus, QUEUE, prefetch, handle, clock=self.clock, **options)
        return await self.start(consumer)

    async def send(self, *names: str, queue: str = QUEUE) -> None:
        results = await self.bus.publish([make_message(name, queue, "post") for name in names])
        assert set(results) == {PublishResult.CONFIRMED}
        await self.clock.settle()

    async def complaints(self) -> list[str]:
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
    consumer = Consumer("office", bus, QUEUE, 10, office.handle, clock=clock)
    with capture_logs():
        yield (scene := Scene(clock, broker, bus, office, health_registry, consumer, [consumer]))
        for started in scene.started:
            await started.stop()
        await bus.close()


async def test_a_batch_that_is_handled_is_freed_though_nothing_follows_it(scene: Scene) -> None:
    """Ten bodies of 1 MiB kept a quiet scheduler 10 MiB larger than before."""
    await scene.consumer.start()
    await scene.send("large")
    assert scene.office.handled == ["large"]
    found: list[object] = gc.get_objects()
    # By `type`: `isinstance` looks at the attributes of lazy objects, such as Django's settings.
    batches = [cast("list[object]", one) for one in found if type(one) is list]
    assert not [batch for batch in batches if any(is_large(part) for part in batch)]


class UnsettledDeliveries:
    """Deliveries that a service settles when a test says so."""

    def __init__(self) -> None:
        self.deliveries: list[tuple[Subscription, Delivery]] = []

    async def handle(self, subscription: Subscription, batch: list[Delivery]) -> None:
        self.deliveries += [(subscription, delivery) for delivery in batch]

    async def settle(self, count: int) -> None:
        settled, self.deliveries = self.deliveries[:count], self.deliveries[count:]
        for subscription, delivery in settled:
            await subscription.ack([delivery])


async def test_5_a_smaller_prefetch_leaves_the_rest_in_the_queue_and_what_was_delivered_here(
    scene: Scene,
) -> None:
    unsettled = UnsettledDeliveries()
    consumer = await scene.consume(unsettled.handle, 4)
    await scene.send(*"abcdefgh")
    assert (len(unsettled.deliveries), scene.broker.ready(QUEUE)) == (4, 4)

    async def resize(limit: int) -> None:
        await consumer.resize(limit, lambda: limit - len(unsettled.deliveries))
        await scene.clock.advance(6)

    await resize(2)
    await unsettled.settle(2)
    await resize(2)
    assert (len(unsettled.deliveries), scene.broker.ready(QUEUE)) == (2, 4), (
        "two are at work, and there is room for two"
    )
    assert consumer.is_paused, "which is no stall"
    await unsettled.settle(1)
    await resize(2)
    assert (len(unsettled.deliveries), scene.broker.ready(QUEUE)) == (2, 3)
    await resize(4)
    assert (len(unsettled.deliveries), scene.broker.ready(QUEUE)) == (4, 1)
    await unsettled.settle(4)
    await resize(4)
    assert (len(unsettled.deliveries), scene.broker.ready(QUEUE)) == (1, 0)
    await unsettled.settle(1)
    await consumer.stop()
    assert scene.broker.ready(QUEUE) == 0, "nothing came back"


def is_large(part: object) -> bool:
    return isinstance(part, Delivery) and part.body == b"large"


async def test_a_portion_is_settled_before_the_next_and_an_outage_holds_up_the_rest(scene: Scene) -> None:
    office = scene.office
    await scene.consume(office.handle, 4, max_batch_size=2)
    office.gate.clear()
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


async def test_an_outage_of_the_store_buries_nothing_however_long_it_lasts(scene: Scene) -> None:
    """A rejection would count as a delivery, and the fourth would dead-letter good work."""
    await scene.consumer.start()
    scene.office.store_is_up = False
    await scene.send("a", "b")
    await scene.clock.advance(60)
    assert scene.office.tries < 20, "pauses grow"
    await scene.clock.advance(540)
    assert scene.office.tries > 10 * DELIVERY_LIMIT
    assert await scene.complaints() == [
        f"messages of queue {QUEUE} cannot be handled: ConnectionError: the store does not answer"
    ]
    scene.office.store_is_up = True
    await scene.clock.advance(10)
    assert scene.office.handled == ["a", "b"]
    assert scene.broker.ready("graveyard") == 0
    assert await scene.complaints() == []
    assert scene.health_registry.checks
    await scene.consumer.stop()
    assert not scene.health_registry.checks


@pytest.fixture
async def prober(scene: Scene) -> Consumer:
    """A consumer that can find out whether its store answers."""

    async def probe() -> None:
        if not scene.office.store_is_up:
            raise ConnectionError("the store does not answer")

    return await scene.consume(scene.office.handle, probe=probe)


@pytest.mark.parametrize("taken_by_another", [False, True])
async def test_7_who_cannot_handle_gives_back_after_seconds_and_comes_back_by_itself(
    scene: Scene, prober: Consumer, *, taken_by_another: bool
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
    if taken_by_another:
        other = await scene.bus.subscribe(QUEUE, prefetch=10)
        assert len(await anext(aiter(other))) == 2
    scene.office.store_is_up = True
    await scene.clock.advance(15)
    assert sorted(scene.office.handled) == ([] if taken_by_another else ["a", "b"])
    assert await scene.complaints() == []
    assert not prober.is_paused


async def test_5_another_prefetch_comes_into_force_although_the_batch_of_that_moment_goes_back(
    scene: Scene, prober: Consumer
) -> None:
    """An agent that was starved once would take few attempts from then on."""
    office = scene.office
    office.store_is_up = False
    await scene.send("a")
    await prober.resize(4, lambda: 4)
    await scene.clock.advance(30)
    office.store_is_up = True
    await scene.clock.advance(30)
    assert office.handled == ["a"]
    await prober.resize(4, lambda: 4)
    await scene.clock.advance(6)
    office.gate.clear()
    await scene.send(*"bcdefg")
    assert scene.broker.ready(QUEUE) == 2, "four are here"
    office.gate.set()


async def test_7_a_probe_that_is_wrong_buries_nothing_for_long(scene: Scene) -> None:
    """Each time it is given back counts as a delivery."""
    await scene.consume(scene.office.handle, probe=scene.bus.ping)
    scene.office.store_is_up = False
    await scene.send("a")
    await scene.clock.advance(300)
    assert scene.broker.ready("graveyard") == 0
    scene.office.store_is_up = True
    await scene.clock.advance(15)
    assert scene.office.handled == ["a"]


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
    actions = ["consumer.handling_failed", "consumer.released", "consumer.recovered"]
    assert [line["action"] for line in about] == actions
    assert about[0]["error"] == "ConnectionError: the store does not answer"
    assert about[0]["exc_info"] is None
    assert about[2]["failures"] > 3


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
    await scene.start(Consumer("lost", scene.bus, "nowhere", 10, scene.office.handle, clock=scene.clock))
    await scene.clock.advance(20)
    assert await scene.complaints() == ["lost receives nothing from the broker"]


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


async def test_g8_a_consumer_that_the_broker_does_not_count_resubscribes(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def uncounted(_: str) -> QueueStats:
        return QueueStats(0, 0)

    monkeypatch.setattr(scene.bus, "backlog", uncounted)
    await scene.consumer.start()
    before = scene.consumer.epoch
    await scene.clock.advance(14)
    assert scene.consumer.epoch == before
    await scene.clock.advance(2)
    assert scene.consumer.epoch != before


async def test_a_consumer_at_its_prefetch_is_not_starved(scene: Scene) -> None:
    await scene.consumer.start()
    scene.office.gate.clear()
    await scene.send(*"abcdefghijk")
    before = scene.consumer.epoch
    await scene.clock.advance(60)
    assert (scene.consumer.epoch, scene.consumer.live, scene.broker.ready(QUEUE)) == (before, True, 1)


async def test_a_long_idle_consumer_resubscribes_once_it_holds_no_message(scene: Scene) -> None:
    """The broker may count messages as delivered that never come."""
    await scene.consumer.start()
    scene.office.gate.clear()
    await scene.send("a")
    before = scene.consumer.epoch
    await scene.clock.advance(60)
    assert scene.consumer.epoch == before, "it would come again"
    scene.office.gate.set()
    await scene.clock.advance(14)
    assert scene.consumer.epoch == before
    await scene.clock.advance(16)
    assert scene.consumer.epoch != before
    assert scene.office.handled == ["a"]


async def test_a_heavy_message_that_cannot_be_handled_keeps_no_other_heavy_one_waiting(scene: Scene) -> None:
    """Returned often, it is handled among the others, where IsolatingHandler parks it."""
    handled: list[str] = []

    async def handle(subscription: Subscription, batch: list[Delivery]) -> None:
        names = [one.body.decode() for one in batch]
        if "bad" in names:
            raise ValueError("out of range")
        handled.extend(names)
        await subscription.ack(batch)

    def is_heavy(_: Delivery) -> bool:
        return True

    await scene.consume(handle, probe=scene.bus.ping, is_heavy=is_heavy)
    await scene.send("bad", "good")
    await scene.clock.run_until(lambda: handled == ["good"], within=60)


# -- commands ----------------------------------------------------------------------------------------------


class NoCrashes:
    """Counts of processes that died with a message: none."""

    async def tries(self, queue: str, deliveries: Sequence[Delivery]) -> list[tuple[int, int]]:
        return [(0, 0) for _ in deliveries]

    async def begin(self, queue: str, deliveries: Sequence[Delivery]) -> None: ...

    async def end(self, queue: str, deliveries: Sequence[Delivery]) -> None: ...

    async def park(self, queue: str, delivery: Delivery, reason: str, detail: str) -> None: ...


@dataclass
class CommandService:
    """A service that carries out commands; `error` is raised by the commands in `failing`."""

    failing: set[str] = field(default_factory=set[str])
    error: Exception = field(default_factory=lambda: KeyError("a bug"))
    carried_out: list[str] = field(default_factory=list[str])
    returns: int = 0  # of the command that was returned most often

    async def receive(self, delivery: Delivery) -> None:
        name, returns = delivery.body.decode(), delivery.headers.get("x-delivery-count", 0)
        self.returns = max(self.returns, returns) if isinstance(returns, int) else self.returns
        if name in self.failing:
            raise self.error
        self.carried_out.append(name)

    async def probe(self) -> None: ...


@pytest.fixture
async def service(scene: Scene) -> CommandService:
    service = CommandService()
    await scene.start(
        consume_commands(
            COMMANDS,
            service.receive,
            scene.bus,
            tries=NoCrashes(),
            clock=scene.clock,
            probe=service.probe,
            metrics=Metrics.disabled(),
        )
    )
    return service


async def test_7_a_command_that_fails_by_a_bug_is_dead_lettered_and_those_behind_it_are_carried_out(
    scene: Scene, service: CommandService
) -> None:
    service.failing = {"bad", "worse"}
    await scene.send("a", "bad", "b", "worse", "c", queue=COMMANDS)
    await scene.clock.advance(600)
    assert service.carried_out == ["a", "b", "c"]
    assert scene.broker.ready("graveyard") == len(service.failing)


async def test_7_an_outage_buries_no_command_however_often_it_goes_back(
    scene: Scene, service: CommandService
) -> None:
    names = [str(number) for number in range(20)]
    service.failing, service.error = set(names), ConnectionError("the store does not answer")
    await scene.send(*names, queue=COMMANDS)
    await scene.clock.advance(36_000)
    assert service.returns > MAX_RETURNS
    service.failing = set()
    await scene.clock.advance(36_000)
    assert service.carried_out == names
    assert scene.broker.ready("graveyard") == 0
