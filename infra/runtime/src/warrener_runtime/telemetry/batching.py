"""Ended spans on their way out: gathered, and sent by a thread of their own."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from os import environ
from typing import Protocol, Self

from opentelemetry.sdk.environment_variables import (
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE,
    OTEL_BSP_MAX_QUEUE_SIZE,
    OTEL_BSP_SCHEDULE_DELAY,
)

from warrener_runtime.telemetry.finished_span import EndedSpan


class Exporter(Protocol):
    """Where spans go. Raises nothing."""

    def send(self, spans: Sequence[EndedSpan]) -> None:
        """Send these. Blocks."""
        ...

    def on_lost(self, count: int, reason: str) -> None:
        """So many were not sent."""
        ...

    def close(self) -> None:
        """Nothing more will be sent, nor what is being sent tried again. May be called twice."""
        ...


@dataclass(frozen=True, slots=True)
class Batching:
    """How much is sent at once, and how soon. OpenTelemetry's own defaults would lose most of what a busy
    service says: some thousand spans a second against a queue of 2,048."""

    delay: float = 1.0  # seconds
    batch: int = 2048
    max_queue: int = 32_768  # spans that wait; beyond them they are lost

    @classmethod
    def from_environment(cls) -> Self:
        """As OpenTelemetry's variables (OTEL_BSP_...) say, where they say anything."""
        default = cls()
        return cls(
            delay=_number(OTEL_BSP_SCHEDULE_DELAY, round(default.delay * 1000)) / 1000,
            batch=_number(OTEL_BSP_MAX_EXPORT_BATCH_SIZE, default.batch),
            max_queue=_number(OTEL_BSP_MAX_QUEUE_SIZE, default.max_queue),
        )


class BatchingSink:
    """A queue with an end: who ends a span waits for nothing, and one that does not fit is lost."""

    def __init__(self, exporter: Exporter, batching: Batching) -> None:
        self._exporter, self._batching = exporter, batching
        self._waiting: deque[EndedSpan] = deque()
        self._dropped = 0
        self._wakeup = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def put(self, span: EndedSpan) -> None:
        """Send it soon. May be called in any thread."""
        waiting = self._waiting
        if len(waiting) >= self._batching.max_queue:
            self._dropped += 1
            return
        waiting.append(span)
        if len(waiting) == self._batching.batch:
            self._wakeup.set()

    def close(self) -> None:
        """Send what is left. Blocks."""
        self._over = True
        self._wakeup.set()
        self._thread.join()

    def give_up(self) -> None:
        """Send nothing more: neither what waits nor again what did not arrive."""
        self._over = True
        self._waiting.clear()
        self._exporter.close()

    def _run(self) -> None:
        while not self._over:
            self._wakeup.wait(self._batching.delay)
            self._wakeup.clear()
            self._flush()
        self._flush()
        self._exporter.close()

    def _flush(self) -> None:
        if dropped := self._dropped:
            self._dropped -= dropped
            self._exporter.on_lost(dropped, f"more than {self._batching.max_queue} wait to be sent")
        waiting = self._waiting
        while count := min(len(waiting), self._batching.batch):
            self._exporter.send([waiting.popleft() for _ in range(count)])


def _number(variable: str, default: int) -> int:
    value = environ.get(variable, "").strip()
    return int(value) if value.isdecimal() and int(value) else default
