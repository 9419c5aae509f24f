"""The ways of metrics out of a service: variables, push, the user's meter provider, /metrics."""

import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

import pytest
from infra.runtime.tests.telemetry.test_metrics import DURATION, JOBS, WAITING
from opentelemetry import metrics as api
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricsData
from structlog.testing import capture_logs

from warrener_runtime.health import HealthServer, Readiness
from warrener_runtime.settings import ServiceSettings
from warrener_runtime.telemetry import Telemetry, names, otlp
from warrener_runtime.telemetry.metrics import Metrics
from warrener_runtime.telemetry.otlp_metrics import MetricPusher, to_metrics_data
from warrener_runtime.telemetry.user_meter import UserMeter

COLLECTOR = otlp.OtlpEndpoint("http://collector:4318/v1/metrics", "http/protobuf")
OTLP = "OTEL_EXPORTER_OTLP"
AT_THE_END = 3600.0  # seconds: no push before shutdown


def recorded() -> Metrics:
    metrics = Metrics()
    metrics.counter(JOBS).add(2, "mail", "")
    metrics.gauge(WAITING).replace({("here",): 1})
    for seconds in (0.5, 9.0):
        metrics.histogram(DURATION).record(seconds, "here")
    return metrics


# -- variables ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variables", [{"OTEL_SDK_DISABLED": "TRUE"}, {"OTEL_METRICS_EXPORTER": "none"}], ids=str
)
def test_variables_switch_metrics_off(variables: Mapping[str, str]) -> None:
    endpoint = {f"{OTLP}_ENDPOINT": "http://collector:4318"}
    assert not otlp.metric_settings({**variables, **endpoint}).enabled


@pytest.mark.parametrize(
    ("variables", "endpoint"),
    [
        ({f"{OTLP}_ENDPOINT": "http://collector:4318/"}, COLLECTOR),
        ({f"{OTLP}_METRICS_ENDPOINT": "http://c:9/own"}, ("http://c:9/own", "http/protobuf")),
        (
            {f"{OTLP}_ENDPOINT": "http://c:4317", f"{OTLP}_METRICS_PROTOCOL": "grpc"},
            ("http://c:4317", "grpc"),
        ),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, ("http://localhost:4318/v1/metrics", "http/protobuf")),
        ({f"{OTLP}_ENDPOINT": "http://c:4318", "OTEL_METRICS_EXPORTER": "prometheus"}, None),
        ({}, None),
    ],
    ids=str,
)
def test_variables_name_the_collector(variables: Mapping[str, str], endpoint: tuple[str, str] | None) -> None:
    chosen = otlp.metric_settings(variables)
    assert (chosen.enabled, chosen.endpoint) == (True, endpoint)
    assert (chosen.interval, chosen.timeout) == (60.0, 10.0)
    batches = {"OTEL_METRIC_EXPORT_INTERVAL": "5000", "OTEL_METRIC_EXPORT_TIMEOUT": "3000"}
    chosen = otlp.metric_settings({f"{OTLP}_TIMEOUT": "9000", **batches})
    assert (chosen.interval, chosen.timeout) == (5.0, 3.0)


@pytest.mark.parametrize(
    "variable",
    ["OTEL_METRIC_EXPORT_INTERVAL", "OTEL_METRICS_EXPORTER", f"{OTLP}_METRICS_TEMPORALITY_PREFERENCE"],
)
def test_a_variable_that_cannot_be_used_is_logged(variable: str) -> None:
    with capture_logs() as logs:
        otlp.metric_settings({variable: "soon"})
    assert [line["variable"] for line in logs] == [variable]


def test_the_service_is_described_without_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    given = "deployment.environment.name=pro%20d, service.name=x, broken"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", given)
    found = otlp.service_resource("warrener-agent")
    assert (found["deployment.environment.name"], found["service.name"]) == ("pro d", "x")
    assert len(found["service.instance.id"]) == 36
    monkeypatch.setenv("OTEL_SERVICE_NAME", "own")
    assert otlp.service_resource("warrener-agent")["service.name"] == "own"


# -- pushing -----------------------------------------------------------------------------------------------


class Collector:
    """Keeps what is pushed; fails as often as `failures` says."""

    def __init__(self, failures: int = 0) -> None:
        self.pushed: list[MetricsData] = []
        self.closed = threading.Event()
        self._failures = failures

    def send(self, data: MetricsData) -> None:
        if self._failures:
            self._failures -= 1
            raise ConnectionError("away")
        self.pushed.append(data)


def pusher(collector: Collector, interval: float = AT_THE_END) -> MetricPusher:
    resource = {"service.name": "a"}
    exporter = otlp.OtlpExporter(collector.send, collector.closed.set)
    return MetricPusher(recorded(), exporter, COLLECTOR.url, lambda: resource, interval)


@pytest.mark.parametrize("rests", [False, True])
def test_the_last_metrics_are_pushed_at_the_end_unless_another_way_carries_them(*, rests: bool) -> None:
    exporter = Collector()
    ending = pusher(exporter)
    ending.rests = rests
    ending.close()
    assert len(exporter.pushed) == (not rests)
    assert exporter.closed.is_set()


def test_an_outage_of_the_collector_is_one_line_and_its_end_another() -> None:
    exporter = Collector(failures=2)
    with capture_logs() as logs:
        failing = pusher(exporter)
        failing.push()
        failing.push()
        failing.close()
    assert [line["action"] for line in logs] == ["telemetry.push_failed", "telemetry.push_recovered"]
    assert len(exporter.pushed) == 1


def test_pushed_metrics_are_cumulative_and_have_the_attributes_of_the_service() -> None:
    data = to_metrics_data(recorded().read(), {"service.name": "a"}, began_ns=1, now_ns=2)
    (resource,) = data.resource_metrics
    assert resource.resource.attributes["service.name"] == "a"
    (scope,) = resource.scope_metrics
    found: dict[str, Any] = {metric.name: metric for metric in scope.metrics}
    assert found.keys() == {"test.jobs", "test.waiting", "test.duration"}
    (jobs,) = found["test.jobs"].data.data_points
    assert (jobs.value, dict(jobs.attributes or {})) == (2, {names.JOB_TYPE: "mail"})
    assert (jobs.start_time_unix_nano, jobs.time_unix_nano) == (1, 2)
    (duration,) = found["test.duration"].data.data_points
    assert (duration.count, duration.sum, tuple(duration.bucket_counts)) == (2, 9.5, (1, 0, 1))
    assert dict(duration.attributes or {}) == {"a.b": "c", names.QUEUE: "here"}
    encoded = encode_metrics(data).resource_metrics[0].scope_metrics[0]
    assert {metric.name for metric in encoded.metrics} == found.keys()


async def test_without_the_sdk_metrics_are_recorded_and_not_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:1/v1/metrics")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.metrics.export", None)
    monkeypatch.delitem(sys.modules, "warrener_runtime.telemetry.otlp_metrics")
    with capture_logs() as logs:
        telemetry = Telemetry.from_settings("s", ServiceSettings())
    assert [line["action"] for line in logs] == ["telemetry.exporter_missing"]
    assert telemetry.metrics.enabled


# -- the user's meter provider -----------------------------------------------------------------------------


def test_a_provider_of_the_user_has_all_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics, reader = recorded(), InMemoryMetricReader()
    meter = UserMeter(metrics)
    assert not meter.look()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(api, "get_meter_provider", lambda: provider)
    assert meter.look()
    metrics.histogram(DURATION).record(2.0, "here")
    metrics.counter(JOBS).add(1, "mail", "")
    data = reader.get_metrics_data()
    assert data is not None
    (scope,) = data.resource_metrics[0].scope_metrics
    found: dict[str, Any] = {metric.name: metric for metric in scope.metrics}
    (jobs,) = found["test.jobs"].data.data_points
    assert jobs.value == 3
    (duration,) = found["test.duration"].data.data_points
    assert (duration.count, tuple(duration.explicit_bounds)) == (1, (1.0, 5.0))
    assert dict(duration.attributes) == {"a.b": "c", names.QUEUE: "here"}
    provider.shutdown()


# -- a service ---------------------------------------------------------------------------------------------


async def test_metrics_are_served_without_any_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_METRICS_EXPORTER", raising=False)
    telemetry = Telemetry.from_settings("warrener-agent", ServiceSettings())
    telemetry.metrics.counter(JOBS).add(2, "mail", "")
    status, body = await fetch(telemetry)
    assert status == 200
    assert 'test_jobs_total{warrener_job_type="mail"} 2' in body
    assert 'service_name="warrener-agent"' in body
    await telemetry.shutdown()


def test_the_metrics_of_an_agent_name_its_agent_id(monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry = Telemetry(metrics=Metrics(), resource={names.SERVICE_INSTANCE_ID: "of the process"})
    telemetry.identify("a1")
    assert 'service_instance_id="a1"' in (telemetry.metrics_text() or "")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=mine")
    telemetry.identify("a1")
    assert 'service_instance_id="mine"' in (telemetry.metrics_text() or "")


async def test_metrics_that_are_off_are_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    status, body = await fetch(Telemetry.from_settings("warrener-agent", ServiceSettings()))
    assert status == 404
    assert "metrics are off" in body


async def fetch(telemetry: Telemetry) -> tuple[int, str]:
    server = HealthServer("agent", Readiness(dict), host="127.0.0.1", port=0, metrics=telemetry.metrics_text)
    await server.open()
    try:
        return get(f"http://127.0.0.1:{server.port}/metrics")  # blocks the loop, and is answered all the same
    finally:
        await server.close()


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()
