"""Messages that were sent together, and what became of them."""

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


class PublishBatch:
    """Writes fates down where the caller of `publish` looks for them. `done` is set when each has one."""

    __slots__ = ("_open", "_results", "done")

    def __init__(self, results: list[PublishResult], size: int) -> None:
        self._results = results
        self._open = size
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resolve(self, index: int, result: PublishResult) -> None:
        """Write down what became of one; each is decided once."""
        self._results[index] = result
        self.count_down()

    def resolve_all(self, indexes: Sequence[int], result: PublishResult) -> None:
        """Write down what became of some."""
        for index in indexes:
            self._results[index] = result
        self.count_down(len(indexes))

    def count_down(self, decided: int = 1) -> None:
        """So many more have a fate."""
        self._open -= decided
        if not self._open and not self.done.done():
            self.done.set_result(None)


RPC_SECONDS = 10.0  # what an answer of the broker may take


class BrokerConnectionLost(Exception):
    """The connection or the channel ended, or the broker refused a step; what was under way is uncertain."""


class RequestRefused(Exception):
    """The broker does not do what was asked, and says why (403, 404, 405, 406)."""


class AckPlan(NamedTuple):
    """Acknowledge everything up to `up_to` at once, and `individual` one by one."""

    up_to: int | None
    individual: list[int]


class NumberedMessage(NamedTuple):
    """A message and its place in what the caller asked to publish."""

    number: int
    message: OutgoingMessage


class PublisherChannel(Protocol):
    """A channel that publishes, with confirms."""

    @property
    def closed(self) -> bool:
        """Whether it can be used no more."""
        ...

    @property
    def refusal(self) -> str | None:
        """What the broker said when it closed it over a publish, if it did."""
        ...

    async def send(self, batch: Sequence[NumberedMessage], sent: PublishBatch) -> None:
        """Send all; returns when each has a fate. Raises LinkLost, after which those without one are
        uncertain."""
        ...

    async def close(self) -> None:
        """Give it up."""
        ...


class ConsumerChannel(Protocol):
    """A channel with one consumer."""

    @property
    def live(self) -> bool:
        """Whether the broker delivers to it, as far as is known."""
        ...

    async def ack(self, plan: AckPlan) -> None:
        """Acknowledge, in one write. Raises LinkLost."""
        ...

    async def reject(self, tags: Sequence[int], *, requeue: bool) -> None:
        """Reject, in one write. Not nack: RabbitMQ 4.3 does not count it, and poison would come back for
        ever. Raises LinkLost."""
        ...

    async def cancel(self) -> None:
        """Receive no more; what arrived may still be settled. Raises LinkLost."""
        ...

    async def close(self) -> None:
        """Give it up: what is unacknowledged goes back."""
        ...


class ConsumerListener(Protocol):
    """Who is told of a consumer's life."""

    @property
    def epoch(self) -> int:
        """What its deliveries are marked with."""
        ...

    def on_opened(self, channel: ConsumerChannel) -> None:
        """This channel will bring deliveries; acknowledge on it. Comes before the first of them."""
        ...

    def on_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        """What came together."""
        ...

    def on_gone(self) -> None:
        """The channel closed, or the broker cancelled the consumer. May be told more than once."""
        ...


class BrokerClient(Protocol):
    """One connection to the broker."""

    @property
    def is_open(self) -> bool:
        """Whether nobody knows it to be broken."""
        ...

    async def wait_closed(self) -> None:
        """Wait until it is closed, by whomever and for whatever reason."""
        ...

    async def wait_unblocked(self) -> None:
        """Wait while the broker reads no publishes. Raises LinkLost."""
        ...

    async def declare(self, exchanges: Iterable[ExchangeSpec], queues: Iterable[QueueSpec]) -> None:
        """Make these exist. Raises TopologyMismatch at the first that differs; LinkLost."""
        ...

    async def unbind(self, queue: str, bindings: Iterable[BindingSpec]) -> None:
        """Undo these where they are there. Raises LinkLost."""
        ...

    async def has_exchange(self, name: str) -> bool:
        """Whether it exists. Raises LinkLost."""
        ...

    async def backlog(self, queue: str) -> QueueStats:
        """What waits in it, and how many consume it. Raises LinkLost."""
        ...

    async def open_publisher(self) -> PublisherChannel:
        """Open a channel that publishes. Raises LinkLost."""
        ...

    async def open_consumer(self, queue: str, prefetch: int, listener: ConsumerListener) -> ConsumerChannel:
        """Consume `queue` on a channel of its own. Raises LinkLost, Refused."""
        ...

    async def close(self) -> None:
        """Close it, broken or not; a peer that does not answer is not waited for."""
        ...
