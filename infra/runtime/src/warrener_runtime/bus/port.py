"""The Bus: messages in batches, whatever carries them.

Every implementation passes `tests/conformance/test_bus.py`. The port is batch-shaped because one message at a
time costs ten times as much on both sides (docs/explanation/performance.md): deliveries arrive in batches,
publishes leave in batches with one wait for their confirms, acknowledgements go by range.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from warrener_runtime.bus.types import (
    BindingSpec,
    Delivery,
    OutgoingMessage,
    PublishResult,
    QueueSpec,
    QueueStats,
    TopologySpec,
)


class Subscription(Protocol):
    """Deliveries of one queue, as an asynchronous iterator of batches.

    A batch holds all that has arrived since the last one (at least one, at most the prefetch). Iteration
    survives lost connections and cancelled consumers: it goes on when the queue can be consumed again, and
    ends after stop().
    """

    @property
    def live(self) -> bool:
        """Whether the broker delivers to this consumer now: connected, consuming, not cancelled."""
        ...

    @property
    def epoch(self) -> int:
        """Another number than before means that the broker's side of it was lost since, and an exclusive
        queue with all that was in it, however quickly it came back."""
        ...

    @property
    def received_count(self) -> int:
        """How many deliveries have ever arrived."""
        ...

    @property
    def has_capacity(self) -> bool:
        """Whether the broker may deliver one more: fewer than the prefetch are unacknowledged."""
        ...

    @property
    def nothing_unacked(self) -> bool:
        """Whether nothing that has arrived is unacknowledged: a renewal would give nothing back."""
        ...

    def resubscribe(self) -> None:
        """Give up the channel, and consume by another one. What is unacknowledged goes back, as if the broker
        had closed it."""
        ...

    def __aiter__(self) -> AsyncIterator[list[Delivery]]: ...

    async def ack(self, deliveries: Iterable[Delivery]) -> None:
        """Tell the broker that these are done; by range where they are contiguous.

        Deliveries of an earlier epoch are passed over: the broker gives them out again by itself.
        """
        ...

    async def reject(self, deliveries: Iterable[Delivery], *, requeue: bool) -> None:
        """Give them back (counted as a delivery by the broker), or dead-letter them with requeue=False."""
        ...

    async def stop(self) -> None:
        """Receive no more; iteration ends once what has arrived was handed out. What is not acknowledged then
        goes back when the bus closes. May be called twice."""
        ...

    async def close(self) -> None:
        """Receive no more, and give back at once what is not acknowledged. May be called twice."""
        ...


Handler = Callable[[Delivery], Awaitable[None]]


class Bus(Protocol):
    """One service's connections to the broker. Never deaf without knowing: see `Subscription.live`."""

    async def start(self) -> None:
        """Connect, patiently: retries with back-off until the broker answers, saying so once in the log.

        Raises BusCredentialsRefused at once where waiting would not help.
        """
        ...

    async def close(self) -> None:
        """Disconnect; unacknowledged deliveries go back. May be called twice, or never started."""
        ...

    async def declare(self, topology: TopologySpec) -> None:
        """Make these exist, and again after each reconnect. Raises TopologyMismatch where something else
        exists by such a name."""
        ...

    async def bind(self, queue: QueueSpec) -> list[BindingSpec]:
        """Make the queue exist, and bound as it says; now, and not again after a reconnect: bindings to
        exchanges of others. Returns those whose exchange does not exist. An exclusive queue cannot be bound
        so. Raises TopologyMismatch."""
        ...

    async def unbind(self, queue: str, bindings: Sequence[BindingSpec]) -> None:
        """Undo these where they are there."""
        ...

    async def publish(
        self, messages: Sequence[OutgoingMessage], *, timeout: float = 10.0
    ) -> list[PublishResult]:
        """Publish all, wait once for all confirms, return what became of each, in order.

        Never raises for the broker's sake: what is not certain within `timeout` seconds is UNKNOWN.
        """
        ...

    async def subscribe(self, queue: str, *, prefetch: int) -> Subscription:
        """Consume `queue`, with at most `prefetch` unacknowledged."""
        ...

    async def listen(self, queue: str, handler: Handler) -> Subscription:
        """Consume a low-rate queue one message at a time: acknowledged after `handler` returns, given back by
        reject if it raises. On RabbitMQ this is a FastStream subscriber."""
        ...

    async def backlog(self, queue: str) -> QueueStats:
        """What waits in `queue` now, given to no consumer. Raises BusUnreachable."""
        ...

    async def ping(self, *, timeout: float = 5.0) -> None:
        """A confirmed loop-back: publish to a queue of our own and receive it. Raises BusUnreachable."""
        ...


class BusError(Exception):
    """The root of what a bus raises."""


class BusCredentialsRefused(BusError):
    """The broker is there and refuses this user, password or virtual host; waiting will not help."""


class BusUnreachable(BusError):
    """The broker did not answer in time."""

    outage = True  # its traceback would tell nothing more


class TopologyMismatch(BusError):
    """An exchange or queue exists with other properties than ours."""
