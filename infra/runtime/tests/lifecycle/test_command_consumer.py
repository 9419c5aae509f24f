"""Commands keep their order: an outage is waited for, and one that fails by a bug stops no other (G7)."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs
from tests.conformance.bus_rigs import make_message

from warrener_contracts.topology import Binding, Exchange, Queue, Topology
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.bus.types import Delivery, PublishResult
from warrener_runtime.lifecycle.command_consumer import MAX_RETURNS, consume_commands
from warrener_runtime.telemetry.metrics import Metrics
from warrener_runtime.virtual_clock import VirtualClock

QUEUE = "commands"
QUORUM = {"x-queue-type": "quorum"}
TOPOLOGY = Topology(
    (Exchange("post"), Exchange("grave")),
    (
        Queue(QUEUE, (Binding("post", "#"),), {**QUORUM, "x-dead-letter-exchange": "grave"}),
        Queue("graveyard", (Binding("grave", "#"),), QUORUM),
    ),
)


class NoCrashes:
    """Counts of processes that died with a message: none."""

    async def tries(self, queue: str, deliveries: Sequence[Delivery]) -> list[tuple[int, int]]:
        return [(0, 0) for _ in deliveries]

    async def begin(self, queue: str, deliveries: Sequence[Delivery]) -> None: ...

    async def end(self, queue: str, deliveries: Sequence[Delivery]) -> None: ...

    async def park(self, queue: str, delivery: Delivery, reason: str, detail: str) -> None: ...


@dataclass
class CommandScene:
    """A service that carries out commands; `error` is raised by the commands in `failing`."""

    clock: VirtualClock
    broker: MemoryBroker
    bus: MemoryBus
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

    async def send(self, *names: str) -> None:
        results = await self.bus.publish([make_message(name, "a", "post") for name in names])
        assert set(results) == {PublishResult.CONFIRMED}
        await self.clock.settle()


@pytest.fixture
async def scene() -> AsyncIterator[CommandScene]:
    clock = VirtualClock()
    broker = MemoryBroker(clock)
    scene = CommandScene(clock, broker, MemoryBus(broker))
    await scene.bus.start()
    await scene.bus.declare(TOPOLOGY)
    consumer = consume_commands(
        QUEUE,
        scene.receive,
        scene.bus,
        tries=NoCrashes(),
        clock=clock,
        probe=scene.probe,
        metrics=Metrics.disabled(),
    )
    with capture_logs():
        await consumer.start()
        yield scene
        await consumer.stop()
        await scene.bus.close()


async def test_7_a_command_that_fails_by_a_bug_is_dead_lettered_and_those_behind_it_are_carried_out(
    scene: CommandScene,
) -> None:
    scene.failing = {"bad", "worse"}
    await scene.send("a", "bad", "b", "worse", "c")
    await scene.clock.advance(600)
    assert scene.carried_out == ["a", "b", "c"]
    assert scene.broker.ready("graveyard") == len(scene.failing)


async def test_7_an_outage_buries_no_command_however_often_it_goes_back(scene: CommandScene) -> None:
    names = [str(number) for number in range(20)]
    scene.failing, scene.error = set(names), ConnectionError("the store does not answer")
    await scene.send(*names)
    await scene.clock.advance(36_000)
    assert scene.returns > MAX_RETURNS
    scene.failing = set()
    await scene.clock.advance(36_000)
    assert scene.carried_out == names
    assert scene.broker.ready("graveyard") == 0
