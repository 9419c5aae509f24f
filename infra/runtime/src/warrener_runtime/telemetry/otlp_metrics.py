"""Pushes metrics to a collector by OTLP, from a thread, and never at the service's cost.

The SDK's public data classes carry what the service has recorded.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
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
from warrener_runtime.telemetry.metrics import MetricReading, Metrics
from warrener_runtime.telemetry.otlp import OtlpEndpoint, OtlpExporter, grpc_exporter
from warrener_runtime.telemetry.otlp_http import http_exporter

log = get_logger("telemetry")


class MetricPusher:
    """Sends all metrics at an interval (seconds), and once more at the end."""

    def __init__(
        self,
        metrics: Metrics,
        exporter: OtlpExporter[MetricsData],
        endpoint: str,
        resource: Callable[[], Mapping[str, str]],
        interval: float,
    ) -> None:
        self._metrics, self._resource, self._interval = metrics, resource, interval
        self._exporter = exporter
        self._endpoint = mask(endpoint)
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
            self._exporter.send(data)
        except Exception as error:  # noqa: BLE001 - no failure of a collector may reach the service
            self._log(str(error))
        else:
            self._log(None)

    def close(self) -> None:
        """Send once more, and end. Blocks."""
        self._over.set()
        self._thread.join()

    def give_up(self) -> None:
        """Send nothing more, and stop retrying."""
        self._over.set()
        self._exporter.close()

    def _run(self) -> None:
        while not self._over.wait(self._interval):
            self._push_unless_resting()
        self._push_unless_resting()
        self._exporter.close()

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


def otlp_exporter(endpoint: OtlpEndpoint, timeout: float) -> OtlpExporter[MetricsData]:
    if endpoint.protocol != "grpc":
        return http_exporter(
            "metrics", endpoint.url, timeout, lambda data: [encode_metrics(data).SerializeToString()]
        )
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter  # noqa: PLC0415 - loads grpcio

    return grpc_exporter(OTLPMetricExporter, endpoint.url, timeout)
