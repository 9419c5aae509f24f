"""The Bus port on a memory broker: one service's connection."""

import asyncio
from collections.abc import Sequence

from warrener_runtime.bus.handler_subscription import HandlerSubscription
from warrener_runtime.bus.memory.broker import MemoryBroker
from warrener_runtime.bus.memory.subscription import MemorySubscription
from warrener_runtime.bus.port import (
    BindingSpec,
    BusUnreachable,
    Handler,
    OutgoingMessage,
    PublishResult,
    QueueSpec,
    QueueStats,
    Subscription,
    TopologySpec,
)

_LISTEN_PREFETCH = 10


class MemoryBus:
    """A connection to a `MemoryBroker` that comes back after every fault, as the one to RabbitMQ does."""

    def __init__(self, broker: MemoryBroker, *, name: str = "memory") -> None:
        self._broker = broker
        self.name = name
        self._topologies: list[TopologySpec] = []
        self._subscriptions: list[MemorySubscription] = []
        self._handler_subscriptions: list[HandlerSubscription] = []
        self._up = asyncio.Event()
        self._losses = 0
        self._closed = False

    # -- Bus -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect; waits while the broker is stopped."""
        self._broker.connect(self)
        await self._up.wait()

    async def close(self) -> None:
        """Disconnect; what is unacknowledged goes back. May be called twice, or never started."""
        if self._closed:
            return
        self._closed = True
        for handler_subscription in self._handler_subscriptions:
            await handler_subscription.close()
        for subscription in self._subscriptions:
            await subscription.stop()
        self._broker.disconnect(self)

    async def declare(self, topology: TopologySpec) -> None:
        """Make these exist, and again after each reconnect."""
        await self._up.wait()
        self._broker.declare(topology, self)
        self._topologies.append(topology)

    async def bind(self, queue: QueueSpec) -> list[BindingSpec]:
        """Make the queue exist, and bound as it says; those bindings whose exchange is missing."""
        await self._up.wait()
        return self._broker.bind(queue)

    async def unbind(self, queue: str, bindings: Sequence[BindingSpec]) -> None:
        """Undo these where they are there."""
        await self._up.wait()
        self._broker.unbind(queue, bindings)

    async def publish(
        self, messages: Sequence[OutgoingMessage], *, timeout: float = 10.0
    ) -> list[PublishResult]:
        """Publish all and return what became of each; UNKNOWN where the broker was gone for too long."""
        if not await self._connected_within(timeout):
            return [PublishResult.UNKNOWN] * len(messages)
        losses = self._losses
        await asyncio.sleep(0)  # a message travels: the connection may break before it arrives, or ...
        if losses != self._losses:
            return [PublishResult.UNKNOWN] * len(messages)
        results = [self._broker.publish(message) for message in messages]
        await asyncio.sleep(0)  # ... before its confirm does
        return results if losses == self._losses else [PublishResult.UNKNOWN] * len(messages)

    async def subscribe(self, queue: str, *, prefetch: int) -> Subscription:
        """Consume `queue`, with at most `prefetch` unacknowledged."""
        return self._subscribe(queue, prefetch)

    async def listen(self, queue: str, handler: Handler) -> Subscription:
        """Consume a low-rate queue one message at a time."""
        subscription = self._subscribe(queue, _LISTEN_PREFETCH)
        handler_subscription = HandlerSubscription(
            subscription, handler, clock=self._broker.clock, queue=queue
        )
        self._handler_subscriptions.append(handler_subscription)
        return handler_subscription

    async def backlog(self, queue: str) -> QueueStats:
        """What waits in `queue` now. Raises BusUnreachable."""
        await self.ping()
        return self._broker.backlog(queue)

    async def ping(self, *, timeout: float = 5.0) -> None:
        """Raises BusUnreachable where the broker does not answer within `timeout`."""
        if not await self._connected_within(timeout):
            raise BusUnreachable(
                f"expected the memory broker to answer within {timeout} s, got no connection; start it"
            )

    # -- Connection, as the broker sees it -----------------------------------------------------------------

    def on_connected(self) -> None:
        """Declare again, consume again, go on."""
        for topology in self._topologies:
            self._broker.declare(topology, self)
        self._up.set()
        self.on_queues_changed()

    def on_disconnected(self) -> None:
        """Nothing that was under way is certain any more."""
        self._losses += 1
        self._up.clear()
        for subscription in self._subscriptions:
            subscription.detach()

    def on_queues_changed(self) -> None:
        """Consumers that have no queue try again, once the current step is over."""
        if self._up.is_set():
            asyncio.get_running_loop().call_soon(self._attach)

    # -- inside --------------------------------------------------------------------------------------------

    def _subscribe(self, queue: str, prefetch: int) -> MemorySubscription:
        subscription = MemorySubscription(self._broker, self, queue, prefetch)
        active = (one for one in self._subscriptions if not (one.stopped and one.nothing_unacked))
        self._subscriptions = [*active, subscription]
        if self._up.is_set():
            subscription.attach()
        return subscription

    def _attach(self) -> None:
        """A deleted queue of our topology is declared again by whoever consumes it, as on RabbitMQ."""
        if not self._up.is_set():
            return
        lost = [subscription for subscription in self._subscriptions if subscription.lost]
        for subscription in lost:
            subscription.attach()
        if any(subscription.lost for subscription in lost) and self._declare_missing():
            for subscription in lost:
                subscription.attach()

    def _declare_missing(self) -> bool:
        missing = [
            topology
            for topology in self._topologies
            if any(not self._broker.has_queue(queue.name) for queue in topology.queues)
        ]
        for topology in missing:
            self._broker.declare(topology, self)
        return bool(missing)

    async def _connected_within(self, timeout: float) -> bool:
        """Whether there is a connection, or comes one in time by the broker's clock."""
        if self._closed or self._up.is_set():
            return not self._closed
        connected = asyncio.ensure_future(self._up.wait())
        limit = asyncio.ensure_future(self._broker.clock.sleep(timeout))
        try:
            await asyncio.wait({connected, limit}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            connected.cancel()
            limit.cancel()
        return self._up.is_set()
