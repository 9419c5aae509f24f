"""How a queue is consumed: one life of a consumer, from opening its channel to losing it."""

from typing import Protocol

from warrener_runtime.bus.rabbit.broker_client import BrokerClient, ConsumerListener


class OpenConsumer(Protocol):
    """A consumer that was opened."""

    async def close(self) -> None:
        """Give it up: what is unacknowledged goes back."""
        ...


class ConsumerFactory(Protocol):
    """How a queue is consumed."""

    @property
    def prefetch(self) -> int:
        """How many may be unacknowledged."""
        ...

    async def open(self, client: BrokerClient, listener: ConsumerListener) -> OpenConsumer:
        """Begin to consume. Raises LinkLost, Refused."""
        ...


class BatchConsumerFactory:
    """Consumes with a channel of our own, for the queues that carry much."""

    def __init__(self, queue: str, prefetch: int) -> None:
        self._queue = queue
        self.prefetch = prefetch

    async def open(self, client: BrokerClient, listener: ConsumerListener) -> OpenConsumer:
        """Begin to consume."""
        return await client.open_consumer(self._queue, self.prefetch, listener)
