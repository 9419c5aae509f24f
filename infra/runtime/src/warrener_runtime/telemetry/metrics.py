"""Metrics of one service: recorded by the thread of its event loop, read by any.

A record is the addition to a number in a dictionary, under the values of its labels, so that it costs a
fraction of a microsecond and needs no package. `render` writes it for Prometheus, in its exposition format
0.0.4, `otlp_metrics` for a collector; `user_meter` hands it to a meter provider of the user. Decision 0026
has the reasons.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from warrener_runtime.telemetry import metric_names

_MAX_LENGTH = 100  # characters of a label's value
PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

LabelValues = tuple[str, ...]
"""The values of a metric's labels, in the order of its declaration; an empty one is left out."""
Number = int | float


class HistogramValue(NamedTuple):
    """The counts of a histogram: by bucket, the last of them above all bounds."""

    counts: tuple[int, ...]
    total: float

    @property
    def values(self) -> int:
        return sum(self.counts)


class MetricReading(NamedTuple):
    """All series of one metric at one moment."""

    spec: metric_names.MetricSpec
    numbers: Mapping[LabelValues, Number]
    histograms: Mapping[LabelValues, HistogramValue]


class LabelBounds:
    """Limits the values of each label, the same for all metrics of a service."""

    def __init__(self, max_values: int = metric_names.MAX_VALUES) -> None:
        self._max_values = max_values
        self._known: dict[str, set[str]] = {}

    def admit(self, names: Sequence[str], values: LabelValues) -> LabelValues:
        """The values under which a record is counted: OTHER for those beyond the limit."""
        if len(values) != len(names):
            raise ValueError(f"expected values for the labels {', '.join(names)}, got {len(values)}")
        return tuple(map(self._admit_one, names, values))

    def _admit_one(self, name: str, value: str) -> str:
        value = value[:_MAX_LENGTH]
        known = self._known.setdefault(name, set())
        if value in known or not value:
            return value
        if len(known) >= self._max_values:
            return metric_names.OTHER
        known.add(value)
        return value


class NumberMetric:
    """A number for each series."""

    __slots__ = ("_bounds", "_observed", "_values", "spec")

    def __init__(self, spec: metric_names.MetricSpec, bounds: LabelBounds) -> None:
        self.spec = spec
        self._bounds = bounds
        self._values: dict[LabelValues, Number] = {}
        self._observed: Callable[[], Mapping[LabelValues, Number]] | None = None

    def observe(self, values: Callable[[], Mapping[LabelValues, Number]]) -> None:
        """Read the series from here whenever the metric is read; in any thread."""
        self._observed = values

    def read(self) -> MetricReading:
        return MetricReading(self.spec, self._observed() if self._observed else self._values.copy(), {})


class CounterMetric(NumberMetric):
    """A number that only grows."""

    __slots__ = ()

    def add(self, amount: Number, *labels: str) -> None:
        """Add to the series of these labels; 0 begins the series, so that its first increase is seen."""
        try:
            self._values[labels] += amount
        except KeyError:
            labels = self._bounds.admit(self.spec.labels, labels)
            self._values[labels] = self._values.get(labels, 0) + amount


class GaugeMetric(NumberMetric):
    """A number that rises and falls."""

    __slots__ = ()

    def replace(self, values: Mapping[LabelValues, Number]) -> None:
        """Set these series, and end all others. Values of labels beyond their limit are added up."""
        admitted: dict[LabelValues, Number] = {}
        for labels, value in values.items():
            key = self._bounds.admit(self.spec.labels, labels)
            admitted[key] = admitted.get(key, 0) + value
        self._values = admitted


class HistogramMetric:
    """Counts values by size, in the buckets of the declaration."""

    __slots__ = ("_bounds", "_limits", "_values", "forward", "spec")

    def __init__(self, spec: metric_names.MetricSpec, bounds: LabelBounds) -> None:
        self.spec = spec
        self._bounds = bounds
        self._limits = spec.bounds
        # Of each series the counts by bucket, and then the sum.
        self._values: dict[LabelValues, list[Number]] = {}
        self.forward: Callable[[float, LabelValues], None] | None = None
        """Also called with each value: histograms of other meters take no counts."""

    def record(self, value: float, *labels: str) -> None:
        """Count a value; a negative one, which clocks may yield, counts as 0."""
        if value < 0:
            value = 0.0
        try:
            cells = self._values[labels]
        except KeyError:
            labels = self._bounds.admit(self.spec.labels, labels)
            cells = self._values.setdefault(labels, [0] * (len(self._limits) + 2))
        cells[bisect_left(self._limits, value)] += 1
        cells[-1] += value
        if self.forward is not None:
            self.forward(value, labels)

    def read(self) -> MetricReading:
        values: dict[LabelValues, HistogramValue] = {}
        for labels, held in self._values.copy().items():
            cells = held.copy()  # at once, so that counts and sum belong together
            total = float(cells.pop())
            values[labels] = HistogramValue(tuple(map(int, cells)), total)
        return MetricReading(self.spec, {}, values)


Instrument = CounterMetric | GaugeMetric | HistogramMetric
I = TypeVar("I", CounterMetric, GaugeMetric, HistogramMetric)  # noqa: E741 - an instrument


class Metrics:
    """The metrics of one service; each declared one has one instrument, whichever part uses it first."""

    def __init__(self, *, enabled: bool = True) -> None:
        self.enabled = enabled
        self.began_ns = time.time_ns()
        self._bounds = LabelBounds()
        self._instruments: dict[str, Instrument] = {}
        self._listeners: list[Callable[[Instrument], None]] = []

    @classmethod
    def disabled(cls) -> "Metrics":
        """Metrics that nobody reads."""
        return cls(enabled=False)

    def counter(self, spec: metric_names.MetricSpec) -> CounterMetric:
        return self._make(spec, CounterMetric)

    def gauge(self, spec: metric_names.MetricSpec) -> GaugeMetric:
        return self._make(spec, GaugeMetric)

    def histogram(self, spec: metric_names.MetricSpec) -> HistogramMetric:
        return self._make(spec, HistogramMetric)

    def read(self) -> list[MetricReading]:
        """Every metric that has a series, by name. May be called in any thread."""
        if not self.enabled:
            return []
        readings = (instrument.read() for _, instrument in sorted(self._instruments.copy().items()))
        return [reading for reading in readings if reading.numbers or reading.histograms]

    def on_instrument(self, listener: Callable[[Instrument], None]) -> None:
        """Call `listener` with each instrument, those that exist and those to come."""
        self._listeners.append(listener)
        for instrument in self._instruments.copy().values():
            listener(instrument)

    def _make(self, spec: metric_names.MetricSpec, kind: type[I]) -> I:
        found = self._instruments.get(spec.name)
        if found is None:
            found = self._instruments[spec.name] = kind(spec, self._bounds)
            for listener in self._listeners:
                listener(found)
        if not isinstance(found, kind):
            raise TypeError(f"expected {spec.name} to be a {spec.kind}, got {type(found).__name__}")
        return found


def render(readings: Iterable[MetricReading], resource: Mapping[str, str]) -> str:
    """Write all series; `resource` has the attributes of the service, the labels of `target_info`.

    Names follow OpenTelemetry's translation: `warrener.job.duration` in seconds is
    `warrener_job_duration_seconds`. Pure.
    """
    about = _labels((metric_names.prometheus_label(name), value) for name, value in resource.items())
    lines = [
        "# HELP target_info The service that these metrics are of.",
        "# TYPE target_info gauge",
        f"target_info{about} 1",
    ]
    for reading in readings:
        name = metric_names.prometheus_name(reading.spec)
        description = reading.spec.description.replace("\\", r"\\").replace("\n", r"\n")
        lines.append(f"# HELP {name} {description}")
        lines.append(f"# TYPE {name} {reading.spec.kind}")
        lines += _samples(name, reading)
    return "\n".join(lines) + "\n"


def _samples(name: str, reading: MetricReading) -> Iterator[str]:
    spec = reading.spec
    for labels, number in reading.numbers.items():
        yield f"{name}{_labels(_pairs(spec, labels))} {number}"
    for labels, value in reading.histograms.items():
        pairs, below = _pairs(spec, labels), 0
        for bound, count in zip((*map(str, spec.bounds), "+Inf"), value.counts, strict=True):
            below += count
            yield f"{name}_bucket{_labels((*pairs, ('le', bound)))} {below}"
        yield f"{name}_sum{_labels(pairs)} {value.total}"
        yield f"{name}_count{_labels(pairs)} {below}"


def _pairs(spec: metric_names.MetricSpec, labels: LabelValues) -> list[tuple[str, str]]:
    return [(metric_names.prometheus_label(name), value) for name, value in spec.attributes(labels).items()]


def _labels(pairs: Iterable[tuple[str, str]]) -> str:
    written = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)
    return f"{{{written}}}" if written else ""
