"""Ended spans are sent soon, in batches, within the limits of queue and time, to the endpoint that is set;
our encoding of them is, for who reads it, that of the SDK's exporter."""

import gzip
import socket
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from structlog.testing import capture_logs

from warrener_runtime.telemetry import otlp, otlp_http
from warrener_runtime.telemetry.encoding import encoder
from warrener_runtime.telemetry.export import Batching, BatchingSink, LossLog, otlp_exporter
from warrener_runtime.telemetry.otlp_http import OtlpHttpClient
from warrener_runtime.telemetry.recorder import EndedSpan, FinishedSpan, origin_of, to_readable_span
from warrener_runtime.telemetry.spans import SpanRef, SpanShape, SpanStart, plain_shape


def begun(name: str) -> SpanStart:
    return SpanStart(SpanRef("1" * 32, "2" * 16, 1), "", None, plain_shape(name, "consumer"), 1)


SPAN = FinishedSpan(begun("work"), 2, {}, None)
AN_HOUR = 3600.0


class Collector:
    """Where spans go; while it is held, it takes none."""

    def __init__(self, failures: int = 0) -> None:
        self.batches: list[int] = []
        self.came = threading.Event()
        self.free = threading.Event()
        self.free.set()
        self.closed = False
        self._failures = failures

    def send(self, spans: Sequence[EndedSpan]) -> None:
        self.came.set()
        assert self.free.wait(10)
        if len(self.batches) < self._failures:
            self.batches.append(0)
            raise ConnectionError("http://me:secret@collector/ is away")
        self.batches.append(len(spans))

    def close(self) -> None:
        self.closed = True


def sink_to(collector: Collector, batching: Batching, losses: LossLog | None = None) -> BatchingSink:
    exporter = otlp.OtlpExporter(collector.send, collector.close)
    return BatchingSink(exporter, losses or LossLog("http://collector/"), batching)


def test_a_full_batch_goes_at_once_and_the_rest_at_the_end() -> None:
    collector = Collector()
    sink = sink_to(collector, Batching(delay=AN_HOUR, batch=3, max_queue=100))
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
    sink = sink_to(collector, Batching(delay=0.01, batch=1000, max_queue=1000))
    sink.put(SPAN)
    assert collector.came.wait(10)
    sink.close()
    assert collector.batches == [1]


def test_spans_beyond_the_queue_limit_are_dropped_and_reported() -> None:
    collector = Collector()
    collector.free.clear()
    sink = sink_to(collector, Batching(delay=AN_HOUR, batch=1, max_queue=5))
    sink.put(SPAN)
    assert collector.came.wait(10)  # it is on its way, and does not wait any more
    for _ in range(8):
        sink.put(SPAN)
    collector.free.set()
    with capture_logs() as records:
        sink.close()
    assert (sum(collector.batches), sink.losses.total) == (6, 3)
    assert records[0]["reason"] == "more than 5 wait to be sent"


def test_lost_spans_are_counted_when_the_collector_takes_spans_again() -> None:
    collector = Collector(failures=4)
    with capture_logs() as records:
        sink = sink_to(collector, Batching(delay=AN_HOUR, batch=1))
        for _ in range(6):
            sink.put(SPAN)
        sink.close()
    assert [(record["action"], record["lost"]) for record in records] == [
        ("telemetry.export_failed", 1),
        ("telemetry.export_recovered", 4),
    ]
    assert records[0]["reason"] == "http://me:***@collector/ is away"


def test_losses_are_logged_once_a_minute_and_counted_at_the_end() -> None:
    now = 0.0
    losses = LossLog("http://me:secret@collector/", monotonic=lambda: now)
    with capture_logs() as records:
        for now in (0.0, 1.0, 59.0, 61.0, 62.0):  # noqa: B007 - the clock of the log reads it
            losses.add(1, "it is away")
        losses.close()
        losses.close()
    assert [(record["action"], record["lost"]) for record in records] == [
        ("telemetry.export_failed", 1),
        ("telemetry.export_failed", 3),
        ("telemetry.export_ended", 5),
    ]
    assert "secret" not in str(records)


def test_the_pace_is_set_by_opentelemetrys_variables() -> None:
    variables = {
        "OTEL_BSP_SCHEDULE_DELAY": "250",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "10",
        "OTEL_BSP_MAX_QUEUE_SIZE": "many",
    }
    found = Batching.from_variables(otlp.OtlpVariables("traces", variables))
    assert found == Batching(delay=0.25, batch=10)


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
        (None, None, {BASE: "http://b", PROTOCOL: GRPC, TRACES_PROTOCOL: HTTP}, ("http://b/v1/traces", HTTP)),
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
    protocol: otlp.OtlpProtocol | None,
    variables: dict[str, str],
    expected: tuple[str, str] | None,
) -> None:
    assert otlp.trace_endpoint(url, protocol, variables) == expected


@pytest.mark.parametrize(
    "variables", [{PROTOCOL: "http/json"}, {"OTEL_TRACES_EXPORTER": "zipkin"}], ids=lambda one: str(*one)
)
def test_a_value_that_is_not_known_is_ignored_with_a_warning(variables: dict[str, str]) -> None:
    with capture_logs() as records:
        found = otlp.trace_endpoint(None, None, {BASE: "http://c", **variables})
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
def test_timeouts_are_milliseconds(variables: dict[str, str], expected: float) -> None:
    with capture_logs() as records:
        assert otlp.OtlpVariables("traces", variables).timeout("OTEL_BSP_EXPORT_TIMEOUT") == expected
    assert len(records) == (variables.get(TIMEOUT) in {"-1", "5s"})


@pytest.mark.parametrize("protocol", get_args(otlp.OtlpProtocol))
def test_a_collector_that_never_answers_costs_no_more_than_the_timeout(
    protocol: otlp.OtlpProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TIMEOUT, "200")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces"
        seconds = list[float]()
        while not seconds or (seconds[-1] >= 4 and len(seconds) < 5):  # the machine may stand still in one
            exporter = otlp_exporter(origin_of(otlp.service_resource("s")), otlp.OtlpEndpoint(url, protocol))
            began = time.monotonic()
            with pytest.raises(OSError, match=r"timed out|does not answer"):
                exporter.send([SPAN])
            exporter.close()
            seconds.append(time.monotonic() - began)
    assert seconds[-1] < 4, seconds


# -- one POST ----------------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """Answers with these statuses in turn, and keeps what it got."""

    def __init__(self, *statuses: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses = list(statuses)
        self.retry_after = ""
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1/traces"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, Server)
        self.server.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(self.server.statuses.pop(0))
        if self.server.retry_after:
            self.send_header("Retry-After", self.server.retry_after)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Quiet."""


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    monkeypatch.setattr(otlp_http, "_FIRST_PAUSE", 0.01)
    servers: list[Server] = []

    def start(*statuses: int) -> Server:
        servers.append(server := Server(*statuses))
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_headers_and_compression_are_those_of_the_variables_and_the_password_that_of_the_url(
    serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b,tenant=x")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip")
    server = serve(200)
    OtlpHttpClient("traces", server.url.replace("//", "//me:p%40ss@"), 5.0).post([b"spans"])
    [(headers, body)] = server.got
    assert b64decode(headers["authorization"].removeprefix("Basic ")) == b"me:p@ss"
    assert (headers["api-key"], headers["tenant"]) == ("a b", "x")
    assert (headers["content-type"], gzip.decompress(body)) == ("application/x-protobuf", b"spans")


def test_a_server_of_another_protocol_costs_each_request_and_is_named() -> None:
    requests, got = [b"one", b"two"], list[bytes]()

    def answer_by_http_2(server: socket.socket) -> None:
        for _ in requests:
            with server.accept()[0] as connection:
                got.append(connection.recv(1 << 16))
                connection.sendall(b"\x00\x00\x12\x04\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer_by_http_2, args=(server,), daemon=True).start()
        client = OtlpHttpClient("traces", f"http://127.0.0.1:{server.getsockname()[1]}/v1/traces", 5.0)
        with pytest.raises(OSError, match="correct the port or the protocol"):
            client.post(requests)
    assert len(got) == len(requests)


def test_a_busy_collector_gets_the_request_again_and_a_refused_one_is_lost(
    serve: Callable[..., Server],
) -> None:
    server = serve(503, 429, 200, 400, 200)
    client = OtlpHttpClient("traces", server.url, 5.0)
    client.post([b"one"])
    with pytest.raises(OSError, match="400"):
        client.post([b"refused", b"two"])
    assert [body for _, body in server.got] == [b"one", b"one", b"one", b"refused", b"two"]


@pytest.mark.parametrize("wait", ["0", "soon", "9" * 5000], ids=["none", "no number", "without end"])
def test_a_retry_after_of_any_text_keeps_no_other_request_from_its_collector(
    serve: Callable[..., Server], wait: str
) -> None:
    is_endless = wait.startswith("9")
    server = serve(503, 200, 200)
    server.retry_after = wait
    client = OtlpHttpClient("traces", server.url, 5.0)
    with pytest.raises(OSError, match="503") if is_endless else nullcontext():
        client.post([b"one", b"two"])
    assert [body for _, body in server.got] == ([b"one", b"two"] if is_endless else [b"one", b"one", b"two"])


def test_a_client_that_is_closed_repeats_nothing(serve: Callable[..., Server]) -> None:
    server = serve(503, 200)
    client = OtlpHttpClient("traces", server.url, 5.0)
    client.close()
    with pytest.raises(OSError, match="503"):
        client.post([b"one"])
    assert len(server.got) == 1


# -- by hand -----------------------------------------------------------------------------------------------

ORIGIN = origin_of(otlp.service_resource("warrener-agent"))
NANOSECONDS = st.integers(0, 2**63)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
VALUES = TEXTS | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False)
ATTRIBUTES = st.dictionaries(TEXTS.map("own.{}".format), VALUES, max_size=8)


def identifier(digits: int) -> st.SearchStrategy[str]:
    return st.integers(1, 16**digits - 1).map(lambda number: f"{number:0{digits}x}")


SHAPES = st.builds(
    SpanShape,
    name=TEXTS,
    kind=st.sampled_from(["internal", "producer", "consumer", "client", "server"]),
    attributes=st.dictionaries(TEXTS.map("shared.{}".format), VALUES, max_size=8),
)
BEGUN = st.builds(
    SpanStart,
    ref=st.builds(SpanRef, identifier(32), identifier(16), st.sampled_from([1, 3])),
    parent_id=st.just("") | identifier(16),
    tracestate=st.sampled_from([None, "vendor=1", "a=b,c=d"]),
    shape=SHAPES,
    start_ns=NANOSECONDS,
)
FINISHED = st.builds(
    FinishedSpan, begun=BEGUN, end_ns=NANOSECONDS, attributes=ATTRIBUTES, error=st.none() | TEXTS
)


def read(spans: list[EndedSpan]) -> list[ExportTraceServiceRequest]:
    return [ExportTraceServiceRequest.FromString(raw) for raw in encoder(ORIGIN)(spans)]


@given(st.lists(FINISHED, min_size=1, max_size=5))
def test_what_is_written_by_hand_reads_as_what_the_sdk_writes(spans: list[FinishedSpan]) -> None:
    (request,) = read([*spans])
    assert request == encode_spans([to_readable_span(span, ORIGIN) for span in spans])


def test_spans_with_more_data_go_by_the_sdk_beside_ours() -> None:
    ours = FinishedSpan(begun("ours"), 2, {}, None)
    rich: ReadableSpan = to_readable_span(ours._replace(begun=begun("rich")), ORIGIN)
    requests = read([ours, rich, ours])
    names = [span.name for one in requests for span in one.resource_spans[0].scope_spans[0].spans]
    assert names == ["ours", "ours", "rich"]


def test_half_a_surrogate_pair_costs_no_more_than_itself() -> None:
    torn = FinishedSpan(begun("torn"), 2, {"a": "x\ud800y"}, "\udfff")
    (request,) = read([torn])
    (span,) = request.resource_spans[0].scope_spans[0].spans
    assert (span.attributes[0].value.string_value, span.status.message) == ("x?y", "?")


def test_many_spans_are_several_requests_of_about_a_mebibyte() -> None:
    large = FinishedSpan(begun("large"), 2, {}, "e" * 4000)
    requests = list(encoder(ORIGIN)([large] * 1000))
    assert len(requests) == 4
    assert max(map(len, requests)) < 1_100_000
