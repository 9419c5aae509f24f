"""Metrics of real services: scraped by Prometheus, checked by promtool's words, pushed by OTLP."""

import re
import threading
import urllib.request
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient

HANDLERS = """
from warrener_agent import Agent

agent = Agent()

@agent.job("metrics.greet")
async def greet(name: str) -> str:
    return f"Hello, {name}!"
"""
SAMPLE = re.compile(r"^([a-z_]+)(\{.*\})? (\S+)$")


class MetricReceiver(ThreadingHTTPServer):
    """Collects the metrics that are pushed: the names by service."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        self.names: dict[str, set[str]] = {}

    def add(self, body: bytes) -> None:
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            service = {one.key: one.value.string_value for one in resource.resource.attributes}[
                "service.name"
            ]
            known = self.names.setdefault(service, set())
            known.update(metric.name for scope in resource.scope_metrics for metric in scope.metrics)


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, MetricReceiver)
        if self.path == "/v1/metrics":
            self.server.add(body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Not on the terminal."""


@pytest.fixture
def collector() -> Iterator[MetricReceiver]:
    with MetricReceiver() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def scrape(port: int) -> dict[str, float]:
    """The samples of a service by name, summed over their labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    found: dict[str, float] = {}
    for line in lines:
        if not line.startswith("#"):
            sample = SAMPLE.match(line)
            assert sample, f"expected a sample, got {line!r}"
            found[sample[1]] = found.get(sample[1], 0) + float(sample[3])
    return found


def has_samples(port: int, expected: dict[str, float]) -> bool:
    """True if the service has these samples now."""
    return expected.items() <= scrape(port).items()


def test_services_are_scraped_and_push(warren: Warren, collector: MetricReceiver) -> None:
    (warren.folder / "greeting.py").write_text(HANDLERS)
    warren.environment = {
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{collector.endpoint}/v1/metrics",
        "OTEL_METRIC_EXPORT_INTERVAL": "500",
    }
    warren.start_all("greeting")
    with SyncClient(warren.broker_url) as client:
        assert client.request("metrics.greet", {"name": "World"}).result(timeout=60) == "Hello, World!"
    ports = {service.name.split("-")[0]: service.health_port for service in warren.services}
    until(
        lambda: scrape(ports["supervisor"]).get("warrener_jobs") == 1,
        "the supervisor to report the one job of the store",
    )
    # Who asked for the job has its result before all that was done for it is counted.
    expected: dict[str, dict[str, float]] = {
        "scheduler": {"warrener_jobs_requested_total": 1},
        "agent": {
            "warrener_job_queue_time_seconds_count": 1,
            "messaging_process_duration_seconds_count": 1,
            "warrener_agent_slots": 10,
        },
        "supervisor": {"warrener_jobs_finished_total": 1, "warrener_agents_alive": 1},
    }
    for service, samples in expected.items():
        until(partial(has_samples, ports[service], samples), f"{samples} of {service}")
    assert scrape(ports["supervisor"])["warrener_store_operation_duration_seconds_count"] > 0
    until(
        lambda: collector.names.keys() >= {"warrener-scheduler", "warrener-agent", "warrener-supervisor"},
        "metrics of all services at the collector",
    )
    until(lambda: "warrener.job.duration" in collector.names["warrener-supervisor"], "that of its duration")
