"""A receiver of OTLP over HTTP: what Jaeger would be told."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class SpanSeen:
    """One exported span."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    failed: bool
    links: tuple[str, ...]  # span ids


class Receiver(ThreadingHTTPServer):
    """Collects spans at `endpoint`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        self._lock = threading.Lock()
        self._spans: list[SpanSeen] = []

    def add(self, body: bytes) -> None:
        """One export request."""
        export = ExportTraceServiceRequest.FromString(body)
        with self._lock:
            for resource in export.resource_spans:
                names = {a.key: a.value.string_value for a in resource.resource.attributes}
                for scope in resource.scope_spans:
                    self._spans += [
                        SpanSeen(
                            names["service.name"],
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            failed=span.status.code == span.status.STATUS_CODE_ERROR,
                            links=tuple(link.span_id.hex() for link in span.links),
                        )
                        for span in scope.spans
                    ]

    def spans(self) -> list[SpanSeen]:
        """All that came so far."""
        with self._lock:
            return list(self._spans)


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        assert isinstance(server, Receiver)
        assert self.path == "/v1/traces"
        assert self.headers.get("Content-Encoding") is None
        server.add(body)
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
