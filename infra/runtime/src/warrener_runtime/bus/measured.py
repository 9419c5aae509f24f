"""Measures what a service publishes: messages by exchange and result, and the time up to their confirms."""

import time
from collections import Counter
from collections.abc import Sequence

from warrener_runtime.bus.port import Bus
from warrener_runtime.bus.types import OutgoingMessage, PublishResult
from warrener_runtime.bus.wrapped import WrappedBus
from warrener_runtime.telemetry.metric_names import OPERATION_DURATION, SENT_MESSAGES
from warrener_runtime.telemetry.metrics import Metrics


class MeasuredBus(WrappedBus):
    """A bus that counts what it publishes."""

    def __init__(self, inner: Bus, metrics: Metrics) -> None:
        super().__init__(inner)
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
