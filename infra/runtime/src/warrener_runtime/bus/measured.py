"""Measures what a service publishes: messages by exchange and result, and the time up to their confirms."""

import time
from collections import Counter
from collections.abc import Sequence

from warrener_runtime.bus.port import Bus, Handler, Subscription
from warrener_runtime.bus.types import (
    BindingSpec,
    OutgoingMessage,
    PublishResult,
    QueueSpec,
    QueueStats,
    TopologySpec,
)
from warrener_runtime.telemetry.metric_names import OPERATION_DURATION, SENT_MESSAGES
from warrener_runtime.telemetry.metrics import Metrics


class MeasuredBus:
    """A bus that counts what it publishes. Passes every call to the inner bus."""

    def __init__(self, inner: Bus, metrics: Metrics) -> None:
        self._inner = inner
        self._sent = metrics.counter(SENT_MESSAGES)
        self._duration = metrics.histogram(OPERATION_DURATION)

    async def publish(
        self, messages: Sequence[OutgoingMessage], *, timeout: float = 10.0
    ) -> list[PublishResult]:
        began = time.perf_counter()
        results = await self._inner.publish(messages, timeout=timeout)
        seconds = time.perf_counter() - began
        if failed := set(results) - {PublishResult.CONFIRMED}:
            self._count_each(messages, results)
        else:
            for exchange, count in Counter([message.exchange for message in messages]).items():
                self._sent.add(count, exchange, "")
        if messages:
            self._duration.record(seconds, min(failed, default=""))
        return results

    def _count_each(self, messages: Sequence[OutgoingMessage], results: Sequence[PublishResult]) -> None:
        for message, result in zip(messages, results, strict=True):
            error = "" if result is PublishResult.CONFIRMED else result.value
            self._sent.add(1, message.exchange, error)

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

    async def subscribe(self, queue: str, *, prefetch: int) -> Subscription:
        return await self._inner.subscribe(queue, prefetch=prefetch)

    async def listen(self, queue: str, handler: Handler) -> Subscription:
        return await self._inner.listen(queue, handler)

    async def backlog(self, queue: str) -> QueueStats:
        return await self._inner.backlog(queue)

    async def ping(self, *, timeout: float = 5.0) -> None:
        await self._inner.ping(timeout=timeout)
