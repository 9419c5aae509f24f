"""The seam between the bus and its client library: the calls that a connection supports.

`lean/client.py` implements it on `warrener_amqp`. Recovery, planning and memory of the topology stand above
it.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from warrener_runtime.bus.types import (
    BindingSpec,
    Delivery,
    ExchangeSpec,
    OutgoingMessage,
    PublishResult,
    QueueSpec,
    QueueStats,
)

RPC_SECONDS = 10.0  # seconds for a reply of the broker
DECLARE_SECONDS = 100.0
"""Seconds for a declaration. RabbitMQ 3.10 writes it to all nodes at once: while one of them is frozen, it
waits for `net_ticktime` (60 to 75 s by default), and a second try would wait behind the first."""


class PublishBatch:
    """Collects the results of messages that were sent together. `done` is set when each has one."""

    __slots__ = ("_open", "_results", "done")

    def __init__(self, results: list[PublishResult], size: int) -> None:
        self._results = results
        self._open = size
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resolve(self, index: int, result: PublishResult) -> None:
        """Set the result of one message; each gets one."""
        self._results[index] = result
        self.count_down()

    def resolve_all(self, indexes: Sequence[int], result: PublishResult) -> None:
        """Set the result of several messages."""
        for index in indexes:
            self._results[index] = result
        self.count_down(len(indexes))

    def count_down(self, decided: int = 1) -> None:
        """Count messages whose results are set."""
        self._open -= decided
        if not self._open and not self.done.done():
            self.done.set_result(None)


class BrokerConnectionLost(Exception):
    """The connection or the channel ended, or the broker refused a step; what was under way is uncertain."""


class RequestRefused(Exception):
    """The broker refuses a request, with a reason (403, 404, 405, 406)."""


class AckPlan(NamedTuple):
    """Acknowledge everything up to `up_to` at once, and the `individual` tags one by one."""

    up_to: int | None
    individual: list[int]


class NumberedMessage(NamedTuple):
    """A message and its place among those of the call."""

    number: int
    message: OutgoingMessage


class PublisherChannel(Protocol):
    """A channel that publishes, with confirms."""

    @property
    def closed(self) -> bool:
        """True if the channel can no longer be used."""
        ...

    @property
    def refusal(self) -> str | None:
        """The broker's reason, if it closed the channel over a publish."""
        ...

    async def send(self, batch: Sequence[NumberedMessage], sent: PublishBatch) -> None:
        """Send all; return when each has a result. After a BrokerConnectionLost those without one are
        uncertain."""
        ...

    async def close(self) -> None:
        """Close the channel."""
        ...


class ConsumerChannel(Protocol):
    """A channel with one consumer."""

    @property
    def live(self) -> bool:
        """True if the broker delivers to this consumer, as far as is known."""
        ...

    async def ack(self, plan: AckPlan) -> None:
        """Acknowledge, in one write. Raises BrokerConnectionLost."""
        ...

    async def reject(self, tags: Sequence[int], *, requeue: bool) -> None:
        """Reject, in one write. Not nack: RabbitMQ 4.3 does not count it, and poison would come back
        without end. Raises BrokerConnectionLost."""
        ...

    async def cancel(self) -> None:
        """Stop receiving; deliveries that have arrived may still be settled. Raises BrokerConnectionLost."""
        ...

    async def close(self) -> None:
        """Close the channel; unacknowledged deliveries go back."""
        ...


class ConsumerListener(Protocol):
    """Receives the events of one consumer."""

    @property
    def epoch(self) -> int:
        """The epoch of its deliveries."""
        ...

    def on_opened(self, channel: ConsumerChannel) -> None:
        """The channel that delivers, and on which to acknowledge; called before the first delivery."""
        ...

    def on_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        """Deliveries that arrived together."""
        ...

    def on_gone(self) -> None:
        """The channel closed, or the broker cancelled the consumer. May be called more than once."""
        ...


class BrokerClient(Protocol):
    """One connection to the broker."""

    @property
    def is_open(self) -> bool:
        """True if the connection is not known to be broken."""
        ...

    async def wait_closed(self) -> None:
        """Wait until the connection is closed, for any reason."""
        ...

    @property
    def blocked(self) -> str | None:
        """Why the broker reads no publishes, in its words; None if it does."""
        ...

    async def wait_unblocked(self) -> None:
        """Wait while the broker reads no publishes. Raises BrokerConnectionLost."""
        ...

    async def declare(self, exchanges: Iterable[ExchangeSpec], queues: Iterable[QueueSpec]) -> None:
        """Declare these. Raises TopologyMismatch at the first that differs; BrokerConnectionLost."""
        ...

    async def unbind(self, queue: str, bindings: Iterable[BindingSpec]) -> None:
        """Remove these bindings where they exist. Raises BrokerConnectionLost."""
        ...

    async def missing(self, exchanges: Iterable[str], queues: Iterable[str] = ()) -> set[str]:
        """Look for exchanges and queues, and return the names of those that do not exist. Raises
        BrokerConnectionLost."""
        ...

    async def backlog(self, queue: str) -> QueueStats:
        """Count the waiting messages and the consumers of a queue. Raises BrokerConnectionLost."""
        ...

    async def open_publisher(self) -> PublisherChannel:
        """Open a channel that publishes. Raises BrokerConnectionLost."""
        ...

    async def open_consumer(self, queue: str, prefetch: int, listener: ConsumerListener) -> ConsumerChannel:
        """Consume `queue` on a channel of its own. Raises BrokerConnectionLost, RequestRefused."""
        ...

    async def close(self) -> None:
        """Close the connection, broken or not, without waiting for a silent peer."""
        ...
