"""The Bus port: messages in batches.

Every implementation passes `tests/conformance/test_bus.py`. The port is batch-shaped because one message at a
time costs ten times as much on both sides (docs/explanation/performance.md): deliveries arrive in batches,
publishes leave in batches with one wait for their confirms, acknowledgements go by range.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Protocol

from warrener_runtime.bus import types


class Subscription(Protocol):
    """Deliveries of one queue, as an asynchronous iterator of batches.

    A batch holds all that has arrived since the last one (at least one, at most the prefetch). Iteration
    survives lost connections and cancelled consumers: it goes on when the queue can be consumed again, and
    ends after stop().
    """

    @property
    def live(self) -> bool:
        """True if the broker delivers to this consumer now: connected, consuming, not cancelled."""
        ...

    @property
    def epoch(self) -> int:
        """The number of this consumer's life. It changes when the broker's side is lost, and with it an
        exclusive queue and its messages, however quickly both come back."""
        ...

    @property
    def received_count(self) -> int:
        """The number of deliveries that have ever arrived."""
        ...

    @property
    def has_capacity(self) -> bool:
        """True if the broker may deliver one more: fewer than the prefetch are unacknowledged."""
        ...

    @property
    def nothing_unacked(self) -> bool:
        """True if every delivery that has arrived is settled: resubscribing would return none."""
        ...

    def resubscribe(self) -> None:
        """Consume by another channel. Unacknowledged deliveries go back, as if the broker had closed the
        channel."""

    def __aiter__(self) -> AsyncIterator[list[types.Delivery]]: ...

    async def ack(self, deliveries: Iterable[types.Delivery]) -> None:
        """Acknowledge deliveries, by range where they are contiguous.

        Deliveries of an earlier epoch are skipped: the broker redelivers them.
        """

    async def reject(self, deliveries: Iterable[types.Delivery], *, requeue: bool) -> None:
        """Give them back (counted as a delivery by the broker), or dead-letter them with requeue=False."""

    async def stop(self) -> None:
        """Stop receiving; iteration ends once all that has arrived was returned. Unacknowledged deliveries
        go back when the bus closes. May be called twice."""

    async def close(self) -> None:
        """Stop receiving, and return unacknowledged deliveries at once. May be called twice."""


class Bus(Protocol):
    """One service's connections to the broker. A stalled consumer is never hidden: see
    `Subscription.live`."""

    async def start(self) -> None:
        """Connect, with retries until the broker answers; the first failure is logged.

        Raises BusCredentialsRefused at once, as waiting would not help.
        """

    async def close(self) -> None:
        """Disconnect; unacknowledged deliveries go back. May be called twice, or never started."""

    async def declare(self, topology: types.TopologySpec, *, verify: bool = False) -> None:
        """Look for these and declare the missing ones, now and after each reconnect; exclusive queues always.

        `verify`: declares and binds the existing ones again, as far as that is permitted. Raises
        TopologyMismatch if something else exists under such a name, which `verify` alone is sure to notice;
        DeclarationForbidden for a missing piece that may not be declared."""

    async def claim(self, exchange: types.ExchangeSpec) -> None:
        """Declare an exchange that must have these properties, now and if it is missing after a reconnect.
        Raises TopologyMismatch."""

    async def bind(self, queue: types.QueueSpec) -> list[types.BindingSpec]:
        """Declare and bind a queue; now, and not again after a reconnect, for bindings to exchanges of
        others. Return the bindings whose exchange is missing. Not for exclusive queues. Raises
        TopologyMismatch."""
        ...

    async def unbind(self, queue: str, bindings: Sequence[types.BindingSpec]) -> None:
        """Remove these bindings where they exist."""

    async def publish(
        self, messages: Sequence[types.OutgoingMessage], *, timeout: float = 10.0
    ) -> list[types.PublishResult]:
        """Publish all, wait once for all confirms, return the result of each, in order.

        No failure of the broker raises: without a confirm within `timeout` seconds the result is UNKNOWN.
        """
        ...

    async def subscribe(self, queue: str, *, prefetch: int) -> Subscription:
        """Consume `queue`, with at most `prefetch` unacknowledged."""
        ...

    async def backlog(self, queue: str) -> types.QueueStats:
        """Count the messages in `queue` that no consumer has. Raises BusUnreachable."""
        ...

    async def ping(self, *, timeout: float = 5.0) -> None:
        """Publish a message to a queue of our own and receive it back. Raises BusUnreachable."""


class BusError(Exception):
    """The base of all errors of a bus."""


class BusCredentialsRefused(BusError):
    """The broker refuses this user, password or virtual host; waiting will not help."""


class BusUnreachable(BusError):
    """The broker did not answer in time."""

    outage = True  # its traceback would add nothing


class TopologyMismatch(BusError):
    """An exchange or queue exists with different properties, or may not be declared."""


class DeclarationForbidden(TopologyMismatch):
    """An exchange or queue is missing, and this user has no permission to declare it, or a binding.

    `rights`: those that the refused step needs, such as "configure and read".
    """

    outage = True

    def __init__(self, text: str, rights: str = "configure") -> None:
        super().__init__(text)
        self.rights = rights
