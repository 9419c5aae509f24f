"""Metrics of real services: scraped by Prometheus, checked by promtool's words, pushed by OTLP."""

import re
import urllib.request
from functools import partial

from tests.acceptance.otlp_receiver import Receiver, receiver
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient

MODULE = "tests.acceptance.many_handlers"
SAMPLE = re.compile(r"^([a-z_]+)(\{.*\})? (\S+)$")


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


def test_services_are_scraped_and_push(warren: Warren) -> None:
    with receiver() as collector:
        scrape_and_collect(warren, collector)


def scrape_and_collect(warren: Warren, collector: Receiver) -> None:
    warren.environment = {
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{collector.endpoint}/v1/metrics",
        "OTEL_METRIC_EXPORT_INTERVAL": "500",
    }
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        assert client.request("many").result(timeout=60) == 1
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
    pushed = collector.metric_names
    services = {f"warrener-{name}" for name in expected}
    until(lambda: pushed.keys() >= services, "metrics of all services at the collector")
    until(lambda: "warrener.job.duration" in pushed["warrener-supervisor"], "that of its duration")
