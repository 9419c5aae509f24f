"""Ended spans are sent soon, in batches, within the limits of queue and time, to the endpoint that is set."""

import contextlib
import socket
import threading
import time
from collections.abc import Sequence
from typing import get_args

import pytest
from structlog.testing import capture_logs

from warrener_runtime.telemetry.endpoint import OtlpEndpoint, OtlpProtocol, otlp_endpoint
from warrener_runtime.telemetry.export import Batching, BatchingSink, export_timeout, otlp_exporter
from warrener_runtime.telemetry.live_span import EndedSpan, FinishedSpan, SpanStart
from warrener_runtime.telemetry.recorder import origin_of
from warrener_runtime.telemetry.spans import SpanRef, plain_shape

SPAN = FinishedSpan(
    SpanStart(SpanRef("1" * 32, "2" * 16, 1), "", None, plain_shape("work", "consumer"), 1), 2, {}, None
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


# -- endpoint and timeout ----------------------------------------------------------------------------------

HTTP, GRPC = "http/protobuf", "grpc"
BASE, TRACES = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
PROTOCOL, TRACES_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"


@pytest.mark.parametrize(
    ("url", "protocol", "variables", "expected"),
    [
        (None, None, {}, None),
        (None, None, {BASE: "", TRACES: " "}, None),
        (None, None, {BASE: "http://c:4318"}, ("http://c:4318/v1/traces", HTTP)),
        (None, None, {BASE: "http://c:4318/"}, ("http://c:4318/v1/traces", HTTP)),
        (None, None, {BASE: "https://c/otlp/"}, ("https://c/otlp/v1/traces", HTTP)),
        (None, None, {BASE: "http://c:4317", PROTOCOL: "grpc"}, ("http://c:4317", GRPC)),
        (None, None, {BASE: "http://b", TRACES: "http://t/own"}, ("http://t/own", HTTP)),
        (
            None,
            None,
            {BASE: "http://b", PROTOCOL: "grpc", TRACES_PROTOCOL: HTTP},
            ("http://b/v1/traces", HTTP),
        ),
        (None, GRPC, {BASE: "c:4317"}, ("c:4317", GRPC)),
        ("http://ours:4317", None, {BASE: "http://b"}, ("http://ours:4317", GRPC)),
        ("http://ours", HTTP, {PROTOCOL: "grpc"}, ("http://ours/v1/traces", HTTP)),
        ("http://ours/own", HTTP, {}, ("http://ours/own", HTTP)),
        ("http://ours", None, {PROTOCOL: HTTP}, ("http://ours/v1/traces", HTTP)),
        (None, None, {BASE: "http://c", "OTEL_TRACES_EXPORTER": "otlp"}, ("http://c/v1/traces", HTTP)),
        (None, None, {BASE: "http://c", "OTEL_TRACES_EXPORTER": "none"}, None),
        ("http://ours", None, {"OTEL_TRACES_EXPORTER": "none"}, None),
        ("http://ours", None, {"OTEL_SDK_DISABLED": "True"}, None),
    ],
)
def test_the_endpoint_is_chosen_by_the_specification(
    url: str | None,
    protocol: OtlpProtocol | None,
    variables: dict[str, str],
    expected: tuple[str, str] | None,
) -> None:
    assert otlp_endpoint(url, protocol, variables) == expected


@pytest.mark.parametrize(
    "variables", [{PROTOCOL: "http/json"}, {"OTEL_TRACES_EXPORTER": "zipkin"}], ids=lambda one: str(*one)
)
def test_a_value_that_is_not_known_is_ignored_with_a_warning(variables: dict[str, str]) -> None:
    with capture_logs() as records:
        found = otlp_endpoint(None, None, {BASE: "http://c", **variables})
    assert found == ("http://c/v1/traces", HTTP)
    assert [record["action"] for record in records] == ["telemetry.variable_ignored"]


TIMEOUT, TRACES_TIMEOUT = "OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, 10.0),
        ({TIMEOUT: "2500"}, 2.5),
        ({TIMEOUT: "2500", TRACES_TIMEOUT: "700"}, 0.7),
        ({"OTEL_BSP_EXPORT_TIMEOUT": "4000"}, 4.0),
        ({TIMEOUT: "0"}, 30.0),
        ({TIMEOUT: "60000", "OTEL_BSP_EXPORT_TIMEOUT": "0"}, 60.0),
        ({TIMEOUT: "-1"}, 10.0),
        ({TIMEOUT: "5s"}, 10.0),
    ],
)
def test_timeouts_are_milliseconds(
    variables: dict[str, str], expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with capture_logs() as records:
        assert export_timeout() == expected
    assert len(records) == (variables.get(TIMEOUT) in {"-1", "5s"})


@pytest.mark.parametrize("protocol", get_args(OtlpProtocol))
def test_a_collector_that_never_answers_costs_no_more_than_the_timeout(
    protocol: OtlpProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TIMEOUT, "200")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces"
        seconds = list[float]()
        while not seconds or (seconds[-1] >= 4 and len(seconds) < 5):  # the machine may stand still in one
            exporter = otlp_exporter(origin_of("s"), OtlpEndpoint(url, protocol))
            began = time.monotonic()
            with contextlib.suppress(Exception):  # a failure is an exception or False
                assert not exporter.export([SPAN])
            exporter.shutdown()
            seconds.append(time.monotonic() - began)
    assert seconds[-1] < 4, seconds
