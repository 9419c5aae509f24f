"""Hands metrics to the meter provider that the user of an agent has set, by OpenTelemetry's public API.

Counters and gauges are observed when the user's reader collects; values of histograms are passed on one by
one, since no observable instrument takes counts. Without a provider of the user this costs nothing.
"""

from collections.abc import Callable, Iterator, Mapping

from opentelemetry import metrics as api

from warrener_runtime.telemetry.metric_names import MetricSpec
from warrener_runtime.telemetry.metrics import (
    CounterMetric,
    GaugeMetric,
    HistogramMetric,
    Instrument,
    LabelValues,
    Metrics,
)


class UserMeter:
    """Makes an instrument of the user's meter for each metric, once there is a provider; see `look`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._meter: api.Meter | None = None

    def look(self) -> bool:
        """True if the user has set a provider; it has all metrics from then on. Call it now and again."""
        if self._meter is None and _is_set(provider := api.get_meter_provider()):
            self._meter = provider.get_meter("warrener")
            self._metrics.on_instrument(self._mirror)
        return self._meter is not None

    def _mirror(self, instrument: Instrument) -> None:
        assert self._meter is not None
        spec = instrument.spec
        match instrument:
            case CounterMetric():
                self._meter.create_observable_counter(
                    spec.name, [_observer(instrument)], spec.unit, spec.description
                )
            case GaugeMetric():
                self._meter.create_observable_gauge(
                    spec.name, [_observer(instrument)], spec.unit, spec.description
                )
            case HistogramMetric():
                histogram = self._meter.create_histogram(
                    spec.name, spec.unit, spec.description, explicit_bucket_boundaries_advisory=spec.bounds
                )
                instrument.forward = _forwarder(spec, histogram)


def _is_set(provider: api.MeterProvider) -> bool:
    """True for a provider that measures: neither the API's stand-in nor the one that does nothing."""
    return (
        type(provider).__module__.partition(".")[0] != "opentelemetry" or ".sdk." in type(provider).__module__
    )


def _observer(
    instrument: CounterMetric | GaugeMetric,
) -> Callable[[api.CallbackOptions], Iterator[api.Observation]]:
    def observe(_: api.CallbackOptions) -> Iterator[api.Observation]:
        for labels, number in instrument.read().numbers.items():
            yield api.Observation(number, instrument.spec.attributes(labels))

    return observe


def _forwarder(spec: MetricSpec, histogram: api.Histogram) -> Callable[[float, LabelValues], None]:
    known: dict[LabelValues, Mapping[str, str]] = {}

    def record(value: float, labels: LabelValues) -> None:
        attributes = known.get(labels)
        if attributes is None:
            attributes = known[labels] = spec.attributes(labels)
        histogram.record(value, attributes)

    return record
