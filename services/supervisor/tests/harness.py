"""A supervisor's surroundings in memory; everything it says is heard."""

from typing import Any

from services.supervisor.tests.event_factory import JOB, NOW

from warrener_contracts import topology
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import Event
from warrener_contracts.messages import Message, build_message
from warrener_contracts.topology import TOPOLOGY, Binding, Queue
from warrener_runtime.bus import Delivery
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.publishing import publish_all
from warrener_runtime.telemetry import Telemetry
from warrener_runtime.virtual_clock import SeededEntropy, VirtualClock
from warrener_store.jobs.rows import JobRow
from warrener_store.memory import MemoryStore
from warrener_supervisor.settings import SupervisorSettings
from warrener_supervisor.wiring import assemble

_RECORDING_QUEUES = (
    Queue("ear.events", (Binding(topology.EVENTS, "#"),)),
    Queue("ear.control", (Binding(topology.CONTROL, "#"),)),
    Queue("ear.status", (Binding(topology.STATUS, "#"),)),
    Queue("ear.attempts", (Binding(topology.DISPATCH, "default.#"), Binding(topology.RETURN, "*.default.#"))),
)


class SupervisorHarness:
    """A supervisor on a memory broker and a memory store, at the time `NOW`."""

    def __init__(self, store: MemoryStore | None = None, settings: SupervisorSettings | None = None) -> None:
        self.clock = VirtualClock(NOW)
        self.broker = MemoryBroker(self.clock)
        self.store = store or MemoryStore()
        self.telemetry = Telemetry.in_memory("warrener-supervisor", clock=self.clock)
        self.bus = MemoryBus(self.broker)
        self.received: dict[str, list[Delivery]] = {}
        self.component = assemble(
            self.bus,
            self.store,
            self.clock,
            SeededEntropy(1),
            self.telemetry,
            settings or SupervisorSettings(),
        )

    async def open(self, *rows: JobRow) -> None:
        """Start, with these jobs in the store."""
        await self.store.insert_jobs(rows)
        await self.bus.start()
        await self.bus.declare(TOPOLOGY.with_queues(_RECORDING_QUEUES))  # before there is anything to hear
        for queue in _RECORDING_QUEUES:
            await self.bus.listen(queue.name, self._receive)
        await self.component.start()

    async def close(self) -> None:
        """Stop everything."""
        await self.component.stop()
        await self.bus.close()
        self.broker.stop()

    async def row(self) -> JobRow:
        """The row of the one job."""
        return (await self.store.jobs_by_id([JOB]))[JOB]

    async def _receive(self, delivery: Delivery) -> None:
        self.received.setdefault(delivery.exchange, []).append(delivery)

    async def publish(self, *words: Event[Any] | Message, then: float = 0.0) -> None:
        """Publish, and let `then` seconds pass."""
        messages = [word if isinstance(word, Message) else build_message(word) for word in words]
        await publish_all(self.bus, messages, clock=self.clock)
        await self.clock.advance(then)

    def published(self, *exchanges: str) -> list[Event[Any]]:
        """The events that were published there, in order."""
        return [
            found.event
            for exchange in exchanges
            for delivery in self.received.get(exchange, [])
            for found in decode(delivery.body, delivery.content_type)
            if isinstance(found, DecodedEvent)
        ]

    def addresses(self, exchange: str) -> list[str]:
        """The routing keys of what was published there."""
        return [delivery.routing_key for delivery in self.received.get(exchange, [])]

    def dispatched(self) -> list[Event[Any]]:
        """What reached the agents' queue, straight or by a delay queue."""
        return self.published(topology.DISPATCH, topology.RETURN)
