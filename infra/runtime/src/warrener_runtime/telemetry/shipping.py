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

from warrener_runtime.telemetry.finished import Ended


class Way(Protocol):
    """Where spans go. Raises nothing."""

    def send(self, spans: Sequence[Ended]) -> None:
        """Send these. Blocks."""
        ...

    def lost(self, count: int, reason: str) -> None:
        """So many were not sent."""
        ...

    def close(self) -> None:
        """Nothing more will be sent, nor what is being sent tried again. May be called twice."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is sent at once, and how soon. OpenTelemetry's own defaults would lose most of what a busy
    service says: some thousand spans a second against a queue of 2,048."""

    delay: float = 1.0  # seconds
    batch: int = 2048
    most: int = 32_768  # spans that wait; beyond them they are lost

    @classmethod
    def set_up(cls) -> Self:
        """As OpenTelemetry's variables (OTEL_BSP_...) say, where they say anything."""
        usual = cls()
        return cls(
            delay=_number(OTEL_BSP_SCHEDULE_DELAY, round(usual.delay * 1000)) / 1000,
            batch=_number(OTEL_BSP_MAX_EXPORT_BATCH_SIZE, usual.batch),
            most=_number(OTEL_BSP_MAX_QUEUE_SIZE, usual.most),
        )


class Shipping:
    """A queue with an end: who ends a span waits for nothing, and one that does not fit is lost."""

    def __init__(self, way: Way, pace: Pace) -> None:
        self._way, self._pace = way, pace
        self._waiting: deque[Ended] = deque()
        self._missed = 0
        self._news = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def put(self, span: Ended) -> None:
        """Send it soon. May be called in any thread."""
        waiting = self._waiting
        if len(waiting) >= self._pace.most:
            self._missed += 1
            return
        waiting.append(span)
        if len(waiting) == self._pace.batch:
            self._news.set()

    def close(self) -> None:
        """Send what is left. Blocks."""
        self._over = True
        self._news.set()
        self._thread.join()

    def give_up(self) -> None:
        """Send nothing more: neither what waits nor again what did not arrive."""
        self._over = True
        self._waiting.clear()
        self._way.close()

    def _run(self) -> None:
        while not self._over:
            self._news.wait(self._pace.delay)
            self._news.clear()
            self._empty()
        self._empty()
        self._way.close()

    def _empty(self) -> None:
        if missed := self._missed:
            self._missed -= missed
            self._way.lost(missed, f"more than {self._pace.most} wait to be sent")
        waiting = self._waiting
        while count := min(len(waiting), self._pace.batch):
            self._way.send([waiting.popleft() for _ in range(count)])


def _number(variable: str, usual: int) -> int:
    said = environ.get(variable, "").strip()
    return int(said) if said.isdecimal() and int(said) else usual
