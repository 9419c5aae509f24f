"""The seam between the bus and a client library: what a connection must be able to do.

Two libraries stand behind it, and every suite of the bus runs on both: aiormq (`rabbit/aiormq_wire.py`), and
the lean one, our own, for speed (`bus/lean`). All that recovers, remembers and plans is written once, above
this."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from warrener_runtime.bus.port import (
    BindingSpec,
    Delivery,
    ExchangeSpec,
    OutgoingMessage,
    QueueSpec,
    QueueStats,
)
from warrener_runtime.bus.rabbit.ack_plan import AckPlan
from warrener_runtime.bus.rabbit.publish_batch import PublishBatch

RPC_SECONDS = 10.0  # what an answer of the broker may take


class BrokerConnectionLost(Exception):
    """The connection or the channel ended, or the broker refused a step; what was under way is uncertain."""


class RequestRefused(Exception):
    """The broker does not do what was asked, and says why (403, 404, 405, 406)."""


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
