"""Metrics as text for Prometheus, in its exposition format 0.0.4. Pure.

Names follow OpenTelemetry's translation: `warrener.job.duration` in seconds is
`warrener_job_duration_seconds`. The attributes of the service are labels of `target_info`.
"""

from collections.abc import Iterable, Iterator, Mapping

from warrener_runtime.telemetry.metric_names import MetricSpec, prometheus_label, prometheus_name
from warrener_runtime.telemetry.metrics import LabelValues, MetricReading

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def render(readings: Iterable[MetricReading], resource: Mapping[str, str]) -> str:
    """Write all series; `resource` has the attributes of the service."""
    lines = [
        "# HELP target_info The service that these metrics are of.",
        "# TYPE target_info gauge",
        f"target_info{_labels((prometheus_label(name), value) for name, value in resource.items())} 1",
    ]
    for reading in readings:
        name = prometheus_name(reading.spec)
        lines.append(f"# HELP {name} {_help(reading.spec.description)}")
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


def _pairs(spec: MetricSpec, labels: LabelValues) -> list[tuple[str, str]]:
    return [(prometheus_label(name), value) for name, value in spec.attributes(labels).items()]


def _labels(pairs: Iterable[tuple[str, str]]) -> str:
    written = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)
    return f"{{{written}}}" if written else ""


def _help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
