"""Pushes metrics to a collector by OTLP, from a thread, and never at the service's cost.

The SDK's public data classes carry what the service has recorded, and its exporters send them: with their
retries, credentials and variables.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from warrener_runtime.logs import get_logger
from warrener_runtime.secrets import mask, shown
from warrener_runtime.telemetry.endpoint import OtlpEndpoint
from warrener_runtime.telemetry.metric_outlets import MetricSettings
from warrener_runtime.telemetry.metrics import MetricReading, Metrics

_CHATTY = ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal")

log = get_logger("telemetry")


class OtlpMetricExporter(Protocol):
    """Sends metrics to a collector: the part of the SDK's exporters that is used."""

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000) -> MetricExportResult:
        """Send these. Blocks."""
        ...

    def shutdown(self) -> None:
        """Close the connection, and stop retrying. May be called twice."""
        ...


class MetricPusher:
    """Sends all metrics at an interval, and once more at the end."""

    def __init__(
        self,
        metrics: Metrics,
        endpoint: OtlpEndpoint,
        settings: MetricSettings,
        resource: Callable[[], Mapping[str, str]],
        *,
        exporter: OtlpMetricExporter | None = None,
    ) -> None:
        for name in _CHATTY:  # they log each failure with a traceback; ours logs one line an outage
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self._metrics, self._settings, self._resource = metrics, settings, resource
        self._exporter = exporter or _otlp_exporter(endpoint, settings.timeout)
        self._endpoint = mask(endpoint.url)
        self._failing = False
        self.rests = False
        """True while another way carries the metrics: nothing is pushed."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()

    def push(self) -> None:
        """Send all metrics now. Blocks; raises nothing."""
        data = to_metrics_data(
            self._metrics.read(), self._resource(), began_ns=self._metrics.began_ns, now_ns=time.time_ns()
        )
        try:
            result = self._exporter.export(data, timeout_millis=self._settings.timeout * 1000)
            reason = None if result is MetricExportResult.SUCCESS else "it does not answer, or refused them"
        except Exception as error:  # noqa: BLE001 - no failure of a collector may reach the service
            reason = str(error)
        self._log(reason)

    def shutdown(self) -> None:
        """Send once more, and end. Blocks."""
        self._over.set()
        self._thread.join()

    def give_up(self) -> None:
        """Send nothing more, and stop retrying."""
        self._over.set()
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._over.wait(self._settings.interval):
            self._push_unless_resting()
        self._push_unless_resting()
        self._exporter.shutdown()

    def _push_unless_resting(self) -> None:
        if not self.rests:
            self.push()

    def _log(self, reason: str | None) -> None:
        """Write one line when pushing begins to fail, and one when it works again."""
        if reason is not None and not self._failing:
            log.warning(
                "Metrics could not be pushed to the collector; the next push has all that they count.",
                action="telemetry.push_failed",
                endpoint=self._endpoint,
                reason=shown(reason),
            )
        elif reason is None and self._failing:
            log.info(
                "Metrics reach the collector again.",
                action="telemetry.push_recovered",
                endpoint=self._endpoint,
            )
        self._failing = reason is not None


def to_metrics_data(
    readings: Iterable[MetricReading], resource: Mapping[str, str], *, began_ns: int, now_ns: int
) -> MetricsData:
    """Convert readings to the SDK's form, as cumulative values since `began_ns`."""
    metrics = [_metric(reading, began_ns, now_ns) for reading in readings]
    scope = ScopeMetrics(InstrumentationScope("warrener"), metrics, "")
    return MetricsData([ResourceMetrics(Resource(dict(resource)), [scope], "")])


def _metric(reading: MetricReading, began_ns: int, now_ns: int) -> Metric:
    spec = reading.spec
    numbers = [
        NumberDataPoint(spec.attributes(labels), began_ns, now_ns, number)
        for labels, number in reading.numbers.items()
    ]
    data: Sum | Gauge | Histogram
    if spec.kind == "counter":
        data = Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    elif spec.kind == "gauge":
        data = Gauge(numbers)
    else:
        points = [
            HistogramDataPoint(
                spec.attributes(labels),
                began_ns,
                now_ns,
                value.values,
                value.total,
                value.counts,
                spec.bounds,
                _NO_EXTREME,
                _NO_EXTREME,
            )
            for labels, value in reading.histograms.items()
        ]
        data = Histogram(points, AggregationTemporality.CUMULATIVE)
    return Metric(spec.name, spec.description, spec.unit, data)


_NO_EXTREME: Any = None  # optional on the wire: minima and maxima of a whole life say little


def _otlp_exporter(endpoint: OtlpEndpoint, timeout: float) -> OtlpMetricExporter:
    if endpoint.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (  # noqa: PLC0415 - loads grpcio
            OTLPMetricExporter as GrpcExporter,
        )

        scheme = urlsplit(endpoint.url).scheme
        insecure = scheme == "http" if scheme in {"http", "https"} else None
        return GrpcExporter(endpoint=endpoint.url, insecure=insecure, timeout=timeout)
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - loads requests
        OTLPMetricExporter as HttpExporter,
    )

    return HttpExporter(endpoint=endpoint.url, timeout=timeout)
