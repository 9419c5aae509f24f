"""A bus and a subscription that pass every call to another one: bases of those that change some."""

from collections.abc import AsyncIterator, Iterable, Sequence

from warrener_runtime.bus.port import Bus, Handler, Subscription
from warrener_runtime.bus.types import (
    BindingSpec,
    Delivery,
    OutgoingMessage,
    PublishResult,
    QueueSpec,
    QueueStats,
    TopologySpec,
)


class WrappedBus:
    """Passes every call to the inner bus."""

    def __init__(self, inner: Bus) -> None:
        self._inner = inner

    async def start(self) -> None:
        await self._inner.start()

    async def close(self) -> None:
        await self._inner.close()

    async def declare(self, topology: TopologySpec) -> None:
        await self._inner.declare(topology)

    async def bind(self, queue: QueueSpec) -> list[BindingSpec]:
        return await self._inner.bind(queue)

    async def unbind(self, queue: str, bindings: Sequence[BindingSpec]) -> None:
        await self._inner.unbind(queue, bindings)

    async def publish(
        self, messages: Sequence[OutgoingMessage], *, timeout: float = 10.0
    ) -> list[PublishResult]:
        return await self._inner.publish(messages, timeout=timeout)

    async def subscribe(self, queue: str, *, prefetch: int) -> Subscription:
        return await self._inner.subscribe(queue, prefetch=prefetch)

    async def listen(self, queue: str, handler: Handler) -> Subscription:
        return await self._inner.listen(queue, handler)

    async def backlog(self, queue: str) -> QueueStats:
        return await self._inner.backlog(queue)

    async def ping(self, *, timeout: float = 5.0) -> None:
        await self._inner.ping(timeout=timeout)


class WrappedSubscription:
    """Passes every call to the inner subscription."""

    def __init__(self, inner: Subscription) -> None:
        self._inner = inner

    @property
    def live(self) -> bool:
        return self._inner.live

    @property
    def epoch(self) -> int:
        return self._inner.epoch

    @property
    def received_count(self) -> int:
        return self._inner.received_count

    @property
    def has_capacity(self) -> bool:
        return self._inner.has_capacity

    @property
    def nothing_unacked(self) -> bool:
        return self._inner.nothing_unacked

    def resubscribe(self) -> None:
        self._inner.resubscribe()

    def __aiter__(self) -> AsyncIterator[list[Delivery]]:
        return self

    async def __anext__(self) -> list[Delivery]:
        return await anext(aiter(self._inner))

    async def ack(self, deliveries: Iterable[Delivery]) -> None:
        await self._inner.ack(deliveries)

    async def reject(self, deliveries: Iterable[Delivery], *, requeue: bool) -> None:
        await self._inner.reject(deliveries, requeue=requeue)

    async def stop(self) -> None:
        await self._inner.stop()

    async def close(self) -> None:
        await self._inner.close()
