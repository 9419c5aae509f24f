"""Spans on their way out: soon, in batches, and never more than there is room for."""

import threading
from collections.abc import Sequence

import pytest
from opentelemetry.trace import SpanKind

from warrener_runtime.telemetry.batching import Batching, BatchingSink
from warrener_runtime.telemetry.context import SpanRef
from warrener_runtime.telemetry.finished_span import EndedSpan, FinishedSpan, SpanStart

SPAN = FinishedSpan(
    SpanStart(SpanRef("1" * 32, "2" * 16, 1), "", None, "work", SpanKind.CONSUMER, 1), 2, {}, None
)
AN_HOUR = 3600.0


class Collector:
    """Where spans go; while it is held, it takes none."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.dropped: list[int] = []
        self.came = threading.Event()
        self.free = threading.Event()
        self.free.set()
        self.closed = False

    def send(self, spans: Sequence[EndedSpan]) -> None:
        self.came.set()
        assert self.free.wait(10)
        self.batches.append(len(spans))

    def on_lost(self, count: int, reason: str) -> None:
        assert reason == "more than 5 wait to be sent"
        self.dropped.append(count)

    def close(self) -> None:
        self.closed = True


def test_a_full_batch_goes_at_once_and_the_rest_at_the_end() -> None:
    collector = Collector()
    sink = BatchingSink(collector, Batching(delay=AN_HOUR, batch=3, max_queue=100))
    for _ in range(3):
        sink.put(SPAN)
    assert collector.came.wait(10)
    for _ in range(2):
        sink.put(SPAN)
    sink.close()
    assert sum(collector.batches) == 5
    assert max(collector.batches) <= 3
    assert collector.closed


def test_a_single_one_goes_when_its_time_has_come() -> None:
    collector = Collector()
    sink = BatchingSink(collector, Batching(delay=0.01, batch=1000, max_queue=1000))
    sink.put(SPAN)
    assert collector.came.wait(10)
    sink.close()
    assert collector.batches == [1]


def test_spans_beyond_the_queue_limit_are_dropped_and_reported() -> None:
    collector = Collector()
    collector.free.clear()
    sink = BatchingSink(collector, Batching(delay=AN_HOUR, batch=1, max_queue=5))
    sink.put(SPAN)
    assert collector.came.wait(10)  # it is on its way, and does not wait any more
    for _ in range(8):
        sink.put(SPAN)
    collector.free.set()
    sink.close()
    assert sum(collector.batches) == 6
    assert sum(collector.dropped) == 3


def test_the_pace_is_set_by_opentelemetrys_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "250")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "many")
    assert Batching.from_environment() == Batching(delay=0.25, batch=10)
