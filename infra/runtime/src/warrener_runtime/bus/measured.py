"""Measures what a service publishes: messages by exchange and result, and the time up to their confirms."""

import time
from collections import Counter
from collections.abc import Awaitable, Sequence

from warrener_runtime.bus.types import OutgoingMessage, PublishResult
from warrener_runtime.telemetry.metric_names import OPERATION_DURATION, SENT_MESSAGES
from warrener_runtime.telemetry.metrics import Metrics


class PublishMetrics:
    """Counts what a bus publishes; nothing if the metrics are off."""

    def __init__(self, metrics: Metrics | None) -> None:
        self._enabled = metrics is not None and metrics.enabled
        metrics = metrics or Metrics.disabled()
        self._sent = metrics.counter(SENT_MESSAGES)
        self._duration = metrics.histogram(OPERATION_DURATION)

    async def measure(
        self, messages: Sequence[OutgoingMessage], publishing: Awaitable[list[PublishResult]]
    ) -> list[PublishResult]:
        """Await the results of these messages, and count them."""
        began = time.perf_counter()
        results = await publishing
        if not self._enabled or not messages:
            return results
        seconds = time.perf_counter() - began
        failed = set(results) - {PublishResult.CONFIRMED}
        if failed:
            for message, result in zip(messages, results, strict=True):
                error = "" if result is PublishResult.CONFIRMED else result.value
                self._sent.add(1, message.exchange, error)
        else:
            for exchange, count in Counter([message.exchange for message in messages]).items():
                self._sent.add(count, exchange, "")
        self._duration.record(seconds, min(failed, default=""))
        return results
