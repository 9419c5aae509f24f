"""A real Jaeger, read by its JSON API. `make test-jaeger` builds it and names it in WARRENER_TEST_JAEGER."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.acceptance.span_seen import SpanSeen
from tests.acceptance.warren import until

from warrener_devservers.process import free_block

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
                    seen = _seen(span, trace["processes"][span["processID"]])
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


def _seen(span: dict[str, Any], process: dict[str, Any]) -> SpanSeen:
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


_SERVERS = (
    "collector.otlp.http.host-port",
    "collector.otlp.grpc.host-port",
    "collector.http-server.host-port",
    "collector.grpc-server.host-port",
    "query.http-server.host-port",
    "query.grpc-server.host-port",
    "admin.http.host-port",
    "http-server.host-port",
)
_UDP_SERVERS = (
    "processor.jaeger-binary.server-host-port",
    "processor.jaeger-compact.server-host-port",
    "processor.zipkin-compact.server-host-port",
)
