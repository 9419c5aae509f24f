"""A service with its surroundings in memory and on virtual time; all that it publishes is captured."""

from collections.abc import Iterable
from typing import Any

from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import Event
from warrener_contracts.messages import Message, build_message
from warrener_contracts.topology import TOPOLOGY, Queue
from warrener_runtime.bus import Delivery
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.bus.memory.queue import StoredMessage
from warrener_runtime.lifecycle import Component
from warrener_runtime.lifecycle.listener import Listener
from warrener_runtime.publishing import publish_all
from warrener_runtime.telemetry import Telemetry
from warrener_runtime.virtual_clock import VirtualClock
from warrener_store.memory import MemoryStore


class CapturedService:
    """The service is the `component` that a subclass makes; `queues` capture messages."""

    component: Component

    def __init__(
        self, name: str, queues: tuple[Queue, ...], clock: VirtualClock, store: MemoryStore | None = None
    ) -> None:
        self.clock, self._queues = clock, queues
        self.broker = MemoryBroker(clock)
        self.store = store or MemoryStore()
        self.telemetry = Telemetry.in_memory(name, clock=clock)
        self.bus = MemoryBus(self.broker)
        self.received: dict[str, list[Delivery]] = {}

    async def start(self) -> None:
        """Start the service, once everything is captured."""
        await self.bus.start()
        await self.bus.declare(TOPOLOGY.with_queues(self._queues))
        for queue in self._queues:
            await Listener(self.bus, queue.name, self._receive, self.clock).start()
        await self.component.start()

    async def close(self) -> None:
        """Stop everything."""
        await self.component.stop()
        await self.bus.close()
        self.broker.stop()

    async def _receive(self, delivery: Delivery) -> None:
        self.received.setdefault(delivery.exchange, []).append(delivery)

    async def publish(self, *sent: Event[Any] | Message, then: float = 0.0) -> None:
        """Publish, and let `then` seconds pass."""
        messages = [one if isinstance(one, Message) else build_message(one) for one in sent]
        await publish_all(self.bus, messages, clock=self.clock)
        await self.clock.advance(then)

    def published(self, *exchanges: str) -> list[Event[Any]]:
        """The events that were published there, in order."""
        return events_in(one for exchange in exchanges for one in self.received.get(exchange, []))


def events_in(deliveries: Iterable[Delivery | StoredMessage]) -> list[Event[Any]]:
    """The events that can be read in these messages."""
    return [
        found.event
        for delivery in deliveries
        for found in decode(delivery.body, delivery.content_type)
        if isinstance(found, DecodedEvent)
    ]
