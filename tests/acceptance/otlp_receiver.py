"""A small OTLP sink: it receives spans and metrics over HTTP and shows spans as Jaeger would."""

import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from tests.acceptance.span_seen import SpanSeen


class Receiver(ThreadingHTTPServer):
    """Collects spans and metrics at `endpoint`."""

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
