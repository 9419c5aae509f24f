"""Spans on their way out: soon, in batches, and never more than there is room for."""

import threading
from collections.abc import Sequence

import pytest
from opentelemetry.trace import SpanKind

from warrener_runtime.telemetry.context import Place
from warrener_runtime.telemetry.finished import Begun, Ended, Finished
from warrener_runtime.telemetry.shipping import Pace, Shipping

SPAN = Finished(Begun(Place("1" * 32, "2" * 16, 1), "", None, "work", SpanKind.CONSUMER, 1), 2, {}, None)
AN_HOUR = 3600.0


class Collector:
    """Where spans go; while it is held, it takes none."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.missed: list[int] = []
        self.came = threading.Event()
        self.free = threading.Event()
        self.free.set()
        self.closed = False

    def send(self, spans: Sequence[Ended]) -> None:
        self.came.set()
        assert self.free.wait(10)
        self.batches.append(len(spans))

    def lost(self, count: int, reason: str) -> None:
        assert reason == "more than 5 wait to be sent"
        self.missed.append(count)

    def close(self) -> None:
        self.closed = True


def test_a_full_batch_goes_at_once_and_the_rest_at_the_end() -> None:
    collector = Collector()
    shipping = Shipping(collector, Pace(delay=AN_HOUR, batch=3, most=100))
    for _ in range(3):
        shipping.put(SPAN)
    assert collector.came.wait(10)
    for _ in range(2):
        shipping.put(SPAN)
    shipping.close()
    assert sum(collector.batches) == 5
    assert max(collector.batches) <= 3
    assert collector.closed


def test_a_single_one_goes_when_its_time_has_come() -> None:
    collector = Collector()
    shipping = Shipping(collector, Pace(delay=0.01, batch=1000, most=1000))
    shipping.put(SPAN)
    assert collector.came.wait(10)
    shipping.close()
    assert collector.batches == [1]


def test_what_finds_no_room_is_lost_and_told() -> None:
    collector = Collector()
    collector.free.clear()
    shipping = Shipping(collector, Pace(delay=AN_HOUR, batch=1, most=5))
    shipping.put(SPAN)
    assert collector.came.wait(10)  # it is on its way, and does not wait any more
    for _ in range(8):
        shipping.put(SPAN)
    collector.free.set()
    shipping.close()
    assert sum(collector.batches) == 6
    assert sum(collector.missed) == 3


def test_the_pace_is_set_by_opentelemetrys_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "250")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "many")
    assert Pace.set_up() == Pace(delay=0.25, batch=10)
