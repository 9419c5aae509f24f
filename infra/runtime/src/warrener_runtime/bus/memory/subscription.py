"""A consumer of the memory broker, in batches."""

from collections.abc import AsyncIterator, Iterable

from warrener_runtime.bus.delivery_buffer import DeliveryBuffer
from warrener_runtime.bus.memory.broker import MemoryBroker, MemoryClient
from warrener_runtime.bus.memory.message import StoredMessage
from warrener_runtime.bus.port import Delivery


class MemorySubscription:
    """Takes from one queue, as far as its prefetch goes; attached again by its bus after every loss."""

    def __init__(self, broker: MemoryBroker, connection: MemoryClient, queue: str, prefetch: int) -> None:
        self._broker = broker
        self._connection = connection
        self._queue = queue
        self._prefetch = prefetch
        self._buffer = DeliveryBuffer()
        self._unacked: dict[int, StoredMessage] = {}
        self._epoch = 0
        self._tag = 0
        self._received_count = 0
        self._attached = False
        self._stopped = False

    @property
    def live(self) -> bool:
        """Whether the broker delivers to it now."""
        return self._attached

    @property
    def epoch(self) -> int:
        """Which of its lives it is in."""
        return self._epoch

    @property
    def lost(self) -> bool:
        """Whether it should be attached and is not."""
        return not self._attached and not self._stopped

    @property
    def stopped(self) -> bool:
        """Whether it is of no use any more."""
        return self._stopped

    @property
    def received_count(self) -> int:
        """How many deliveries have ever arrived."""
        return self._received_count

    @property
    def nothing_unacked(self) -> bool:
        """Whether nothing that has arrived is unacknowledged."""
        return not self._unacked

    def resubscribe(self) -> None:
        """Consume anew; what is unacknowledged goes back."""
        if self._attached:
            self.detach()
            self._connection.on_queues_changed()

    # -- what the bus does with it -------------------------------------------------------------------------

    def attach(self) -> None:
        """Consume, under a new epoch, if it does not yet."""
        if not self.lost:
            return
        self._epoch += 1
        self._tag = 0
        self._attached = self._broker.consume(self._queue, self, self._connection)

    def detach(self) -> None:
        """The connection is gone: what is unacknowledged goes back, and what nobody took yet is forgotten."""
        self._broker.cancel(self._queue, self)
        self._drop_unacked()

    # -- what the broker does with it ----------------------------------------------------------------------

    @property
    def has_capacity(self) -> bool:
        """Whether the prefetch allows one more."""
        return len(self._unacked) < self._prefetch

    def take(self, message: StoredMessage) -> None:
        """A delivery arrives."""
        self._tag += 1
        self._received_count += 1
        self._unacked[self._tag] = message
        self._buffer.put(_delivery(message, self._tag, self._epoch))

    def on_cancelled(self) -> None:
        """The broker cancelled it: its channel is given up, and its bus attaches it again."""
        self._drop_unacked()
        self._connection.on_queues_changed()

    def _drop_unacked(self) -> None:
        self._attached = False
        self._epoch += 1
        self._buffer.clear()
        returned, self._unacked = list(self._unacked.values()), {}
        self._broker.requeue(self._queue, returned)

    # -- what its user does with it ------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[list[Delivery]]:
        return self

    async def __anext__(self) -> list[Delivery]:
        """All that has arrived since the last batch."""
        batch = await self._buffer.batch()
        if not batch:
            raise StopAsyncIteration
        return batch

    async def ack(self, deliveries: Iterable[Delivery]) -> None:
        """Done with these; those of an earlier epoch are passed over."""
        if self._settle(deliveries):
            self._broker.resume_delivery(self._queue)

    async def reject(self, deliveries: Iterable[Delivery], *, requeue: bool) -> None:
        """Give them back, or dead-letter them."""
        messages = self._settle(deliveries)
        if requeue:
            self._broker.requeue(self._queue, messages)
        else:
            self._broker.dead_letter(self._queue, messages)
        self._broker.resume_delivery(self._queue)

    async def stop(self) -> None:
        """Receive no more; what has arrived is still handed out and may be acknowledged."""
        self._stopped = True
        self._attached = False
        self._broker.cancel(self._queue, self)
        self._buffer.end()

    async def close(self) -> None:
        """Receive no more; what is unacknowledged goes back."""
        await self.stop()
        self._drop_unacked()

    def _settle(self, deliveries: Iterable[Delivery]) -> list[StoredMessage]:
        """The messages behind these deliveries that are still ours to settle."""
        mine = [one.tag for one in deliveries if one.epoch == self._epoch and one.tag in self._unacked]
        return [self._unacked.pop(tag) for tag in mine]


def _delivery(message: StoredMessage, tag: int, epoch: int) -> Delivery:
    headers = dict(message.headers)
    if message.returned:
        headers["x-delivery-count"] = message.returned
    return Delivery(
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
    )
