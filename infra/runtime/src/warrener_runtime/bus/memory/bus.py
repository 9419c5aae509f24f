"""The Bus port on a memory broker: one service's connection and its consumers."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from warrener_runtime.bus import types
from warrener_runtime.bus.measured import PublishMetrics
from warrener_runtime.bus.memory.broker import MemoryBroker, MemoryClient
from warrener_runtime.bus.memory.queue import QueueConsumer, StoredMessage
from warrener_runtime.bus.port import BusUnreachable, DeclarationForbidden, Subscription
from warrener_runtime.bus.subscriptions import BufferedSubscription
from warrener_runtime.clock import wait_at_most
from warrener_runtime.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from warrener_runtime.keys import MessageSigner


class MemorySubscription(BufferedSubscription):
    """A consumer of one queue in batches; its bus attaches it again after every loss."""

    def __init__(self, broker: MemoryBroker, connection: MemoryClient, queue: str, prefetch: int) -> None:
        super().__init__()
        self._broker = broker
        self._connection = connection
        self._queue = queue
        self._prefetch = prefetch
        self._consumer = QueueConsumer(lambda: self.has_capacity, self._take, self._on_cancelled)
        self._unacked: dict[int, StoredMessage] = {}
        self._tag = 0
        self.epoch = self.received_count = 0
        self.live = self.stopped = False

    @property
    def lost(self) -> bool:
        """True if it should be attached and is not."""
        return not self.live and not self.stopped

    @property
    def nothing_unacked(self) -> bool:
        return not self._unacked

    def resubscribe(self) -> None:
        if self.live:
            self.detach()
            self._connection.on_queues_changed()

    # -- for its bus ---------------------------------------------------------------------------------------

    def attach(self) -> None:
        """Consume under a new epoch, unless attached."""
        if not self.lost:
            return
        self.epoch += 1
        self._tag = 0
        self.live = self._broker.consume(self._queue, self._consumer, self._connection)

    def detach(self) -> None:
        """Return unacknowledged messages and drop buffered ones, as the connection is gone."""
        self._broker.cancel(self._queue, self._consumer)
        self._drop_unacked()

    # -- for the broker ------------------------------------------------------------------------------------

    @property
    def has_capacity(self) -> bool:
        return len(self._unacked) < self._prefetch

    def _take(self, message: StoredMessage) -> None:
        self._tag += 1
        self.received_count += 1
        self._unacked[self._tag] = message
        self._buffer.put([_delivery(message, self._tag, self.epoch)])

    def _on_cancelled(self) -> None:
        """Drop the channel of a cancelled consumer; its bus attaches it again."""
        self._drop_unacked()
        self._connection.on_queues_changed()

    def _drop_unacked(self) -> None:
        self.live = False
        self.epoch += 1
        self._buffer.clear()
        returned, self._unacked = list(self._unacked.values()), {}
        self._broker.requeue(self._queue, returned)

    # -- for its user --------------------------------------------------------------------------------------

    async def ack(self, deliveries: Iterable[types.Delivery]) -> None:
        if self._settle(deliveries):
            self._broker.resume_delivery(self._queue)

    async def reject(self, deliveries: Iterable[types.Delivery], *, requeue: bool) -> None:
        messages = self._settle(deliveries)
        if requeue:
            self._broker.requeue(self._queue, messages)
        else:
            self._broker.dead_letter(self._queue, messages)
        self._broker.resume_delivery(self._queue)

    async def stop(self) -> None:
        self.stopped = True
        self.live = False
        self._broker.cancel(self._queue, self._consumer)
        self._buffer.end()

    async def close(self) -> None:
        await self.stop()
        self._drop_unacked()

    def _settle(self, deliveries: Iterable[types.Delivery]) -> list[StoredMessage]:
        """Take the messages of deliveries that are still to settle."""
        mine = [one.tag for one in deliveries if one.epoch == self.epoch and one.tag in self._unacked]
        return [self._unacked.pop(tag) for tag in mine]


def _delivery(message: StoredMessage, tag: int, epoch: int) -> types.Delivery:
    headers = dict(message.headers)
    if message.returned:
        headers["x-delivery-count"] = message.returned
    return types.Delivery(
        body=message.body,
        routing_key=message.routing_key,
        exchange=message.exchange,
        redelivered=message.returned > 0,
        tag=tag,
        epoch=epoch,
        content_type=message.content_type,
        message_id=message.message_id,
        type=message.type,
        headers=headers,
        user_id=message.user_id,
    )


class MemoryBus:
    """A connection to a `MemoryBroker` that reconnects after every fault, as the one to RabbitMQ does."""

    def __init__(
        self,
        broker: MemoryBroker,
        *,
        name: str = "memory",
        metrics: Metrics | None = None,
        signer: "MessageSigner | None" = None,
        declare: types.DeclareMode = "if-missing",
        user_id: str | None = None,
    ) -> None:
        """`user_id`: the user that all messages name; None: none."""
        self._publish_metrics, self._signer, self._user_id = PublishMetrics(metrics), signer, user_id
        self._may_declare = declare != "never"
        self._broker = broker
        self.name = name
        self._topologies: list[types.TopologySpec] = []
        self._subscriptions: list[MemorySubscription] = []
        self._up = asyncio.Event()
        self._losses = 0
        self._closed = False

    # -- Bus -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect; waits while the broker is stopped."""
        self._broker.connect(self)
        await self._up.wait()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for subscription in self._subscriptions:
            await subscription.stop()
        self._broker.disconnect(self)

    async def declare(self, topology: types.TopologySpec, *, verify: bool = False) -> None:
        await self._up.wait()
        self._declare(topology, verify=verify)
        if topology not in self._topologies:
            self._topologies.append(topology)

    async def claim(self, exchange: types.ExchangeSpec) -> None:
        await self.declare(types.NamedTopology((exchange,), ()), verify=True)

    async def bind(self, queue: types.QueueSpec) -> list[types.BindingSpec]:
        await self._up.wait()
        return self._broker.bind(queue)

    async def unbind(self, queue: str, bindings: Sequence[types.BindingSpec]) -> None:
        await self._up.wait()
        self._broker.unbind(queue, bindings)

    async def publish(
        self, messages: Sequence[types.OutgoingMessage], *, timeout: float = 10.0
    ) -> list[types.PublishResult]:
        if self._signer is not None:
            messages = self._signer.sign(messages)
        return await self._publish_metrics.measure(messages, self._publish(messages, timeout))

    async def _publish(
        self, messages: Sequence[types.OutgoingMessage], timeout: float
    ) -> list[types.PublishResult]:
        if not await self._connected_within(timeout):
            return [types.PublishResult.UNKNOWN] * len(messages)
        losses = self._losses
        await asyncio.sleep(0)  # a message travels: the connection may break before it arrives, or ...
        if losses != self._losses:
            return [types.PublishResult.UNKNOWN] * len(messages)
        results = [self._broker.publish(message, self._user_id) for message in messages]
        await asyncio.sleep(0)  # ... before its confirm does
        return results if losses == self._losses else [types.PublishResult.UNKNOWN] * len(messages)

    async def subscribe(self, queue: str, *, prefetch: int) -> Subscription:
        subscription = MemorySubscription(self._broker, self, queue, prefetch)
        active = (one for one in self._subscriptions if not (one.stopped and one.nothing_unacked))
        self._subscriptions = [*active, subscription]
        if self._up.is_set():
            subscription.attach()
        return subscription

    async def backlog(self, queue: str) -> types.QueueStats:
        await self.ping()
        return self._broker.backlog(queue)

    async def ping(self, *, timeout: float = 5.0) -> None:
        if not await self._connected_within(timeout):
            raise BusUnreachable(
                f"expected the memory broker to answer within {timeout} s, got no connection; start it"
            )

    # -- MemoryClient, for the broker ----------------------------------------------------------------------

    def on_connected(self) -> None:
        """Declare and consume again."""
        for topology in self._topologies:
            self._declare(topology)
        self._up.set()
        self.on_queues_changed()

    def on_disconnected(self) -> None:
        """Make publishes under way uncertain, and detach the consumers."""
        self._losses += 1
        self._up.clear()
        for subscription in self._subscriptions:
            subscription.detach()

    def on_queues_changed(self) -> None:
        """Attach consumers without a queue, after the current loop turn."""
        if self._up.is_set():
            asyncio.get_running_loop().call_soon(self._attach)

    # -- inside --------------------------------------------------------------------------------------------

    def _attach(self) -> None:
        """Attach lost consumers; a deleted queue of our topology is declared again first, as on RabbitMQ."""
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
            self._declare(topology)
        return bool(missing)

    def _declare(self, topology: types.TopologySpec, *, verify: bool = False) -> None:
        """Declare what is missing and, with `verify`, the rest too. Raises TopologyMismatch."""
        missing = self._broker.missing(topology)
        shared = [exchange.name for exchange in missing.exchanges]
        shared += [queue.name for queue in missing.queues if not queue.exclusive]
        if shared and not self._may_declare:
            raise DeclarationForbidden(f"expected {shared[0]} on the broker, got none; declare it")
        self._broker.declare(topology if verify and self._may_declare else missing, self)

    async def _connected_within(self, timeout: float) -> bool:
        """True if there is a connection, or one comes in time by the broker's clock."""
        if self._closed or self._up.is_set():
            return not self._closed
        return await wait_at_most(timeout, self._up, self._broker.clock)
