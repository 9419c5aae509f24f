"""Spans as a reader of traces sees them, and their two readers: a small OTLP sink, and a real Jaeger."""

import json
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from tests.acceptance.warren import until

from warrener_devservers.process import free_block


@dataclass(frozen=True)
class SpanSeen:
    """One exported span. `start` and `end` are seconds since 1970; `links` are trace and span ids."""

    service: str
    instance: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    failed: bool
    start: float
    end: float
    attributes: Mapping[str, Any]
    events: tuple[str, ...]
    links: tuple[tuple[str, str], ...]

    @property
    def operation(self) -> str:
        """The first word of its name."""
        return self.name.split()[0]


def longest_hole(spans: Iterable[SpanSeen]) -> float:
    """The longest time, in seconds, between start and end of a trace that lies in none of its spans."""
    longest, covered_until = 0.0, None
    for span in sorted(spans, key=lambda span: span.start):
        if covered_until is not None:
            longest = max(longest, span.start - covered_until)
        covered_until = span.end if covered_until is None else max(covered_until, span.end)
    return longest


class Receiver(ThreadingHTTPServer):
    """Collects spans and metrics, by OTLP over HTTP at `endpoint`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        self._lock = threading.Lock()
        self._spans: dict[tuple[str, str], SpanSeen] = {}
        self.metric_names: dict[str, set[str]] = {}
        """The names of the metrics by service."""

    def add(self, body: bytes) -> None:
        """Add the spans of one export request. One whose answer came too late is sent again: a span is kept
        once, as Jaeger does."""
        export = ExportTraceServiceRequest.FromString(body)
        with self._lock:
            for resource in export.resource_spans:
                service = _values(resource.resource.attributes)
                for scope in resource.scope_spans:
                    for span in (_seen(span, service) for span in scope.spans):
                        self._spans[span.trace_id, span.span_id] = span

    def add_metrics(self, body: bytes) -> None:
        """Add the names of one export request."""
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            known = self.metric_names.setdefault(_values(resource.resource.attributes)["service.name"], set())
            known.update(metric.name for scope in resource.scope_metrics for metric in scope.metrics)

    def spans(self) -> list[SpanSeen]:
        """All spans that were received."""
        with self._lock:
            return [*self._spans.values()]


def _seen(span: Span, service: dict[str, Any]) -> SpanSeen:
    return SpanSeen(
        service=service["service.name"],
        instance=service.get("service.instance.id", ""),
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        failed=span.status.code == span.status.STATUS_CODE_ERROR,
        start=span.start_time_unix_nano / 1e9,
        end=span.end_time_unix_nano / 1e9,
        attributes=_values(span.attributes),
        events=tuple(event.name for event in span.events),
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
    )


def _values(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    return {one.key: _value(one.value) for one in attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        assert isinstance(server, Receiver)
        assert self.headers.get("Content-Encoding") is None
        {"/v1/traces": server.add, "/v1/metrics": server.add_metrics}[self.path](body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Not on the terminal."""


@contextmanager
def receiver() -> Generator[Receiver]:
    """A receiver, as long as it is needed."""
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


_LIMIT = 1000


class Jaeger:
    """Receives OTLP over HTTP at `endpoint`."""

    def __init__(self, otlp_port: int, query_port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{otlp_port}"
        self._api = f"http://127.0.0.1:{query_port}/api"

    def spans(self) -> list[SpanSeen]:
        """All spans that were received."""
        found: dict[tuple[str, str, str], SpanSeen] = {}
        services: list[str] = self._get("services") or []
        for service in services:
            query = f"service={urllib.parse.quote(service)}&limit={_LIMIT}&lookback=1h"
            traces: list[dict[str, Any]] = self._get(f"traces?{query}") or []
            for trace in traces:
                spans: list[dict[str, Any]] = trace["spans"]
                for span in spans:
                    seen = _seen_by_jaeger(span, trace["processes"][span["processID"]])
                    found[seen.trace_id, seen.span_id, seen.service] = seen
        return [*found.values()]

    def ready(self) -> bool:
        """True once it answers."""
        try:
            self._get("services")
        except (OSError, urllib.error.URLError):
            return False
        return True

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._api}/{path}", timeout=10) as answer:
            return json.load(answer)["data"]


def _seen_by_jaeger(span: dict[str, Any], process: dict[str, Any]) -> SpanSeen:
    tags = {tag["key"]: tag["value"] for tag in span["tags"]}
    references = [(one["refType"], one["traceID"], one["spanID"]) for one in span["references"]]
    parents = [
        (trace, parent)
        for kind, trace, parent in references
        if kind == "CHILD_OF" and trace == span["traceID"]
    ]
    parent = parents[0] if parents else (span["traceID"], "")
    links = [(trace, linked) for _, trace, linked in references if (trace, linked) != parent]
    logs = [{field["key"]: field["value"] for field in log["fields"]} for log in span["logs"]]
    start = span["startTime"] / 1e6
    return SpanSeen(
        service=process["serviceName"],
        instance=next((tag["value"] for tag in process["tags"] if tag["key"] == "service.instance.id"), ""),
        name=span["operationName"],
        trace_id=span["traceID"],
        span_id=span["spanID"],
        parent_id=parent[1],
        failed=tags.get("error") is True,
        start=start,
        end=start + span["duration"] / 1e6,
        attributes=tags,
        events=tuple(log.get("event", "") for log in logs),
        links=tuple(links),
    )


@contextmanager
def jaeger(binary: Path, log: Path) -> Generator[Jaeger]:
    """A Jaeger with its spans in memory, as long as it is needed."""
    block = free_block(range(len(_SERVERS)))
    flags = {name: block + offset for names in (_SERVERS, _UDP_SERVERS) for offset, name in enumerate(names)}
    command = [str(binary), *(f"--{name}=127.0.0.1:{port}" for name, port in flags.items())]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            server = Jaeger(flags["collector.otlp.http.host-port"], flags["query.http-server.host-port"])
            until(server.ready, "Jaeger to answer")
            yield server
        finally:
            process.terminate()


_SERVERS = """
collector.otlp.http.host-port collector.otlp.grpc.host-port collector.http-server.host-port
collector.grpc-server.host-port query.http-server.host-port query.grpc-server.host-port admin.http.host-port
http-server.host-port
""".split()  # noqa: SIM905 - a list of words is read as words
_UDP_SERVERS = [
    f"processor.{name}.server-host-port" for name in ("jaeger-binary", "jaeger-compact", "zipkin-compact")
]
