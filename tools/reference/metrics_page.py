"""`docs/reference/metrics.md`: every metric and label."""

from tools.reference import GENERATED

from warrener_runtime.telemetry.metric_names import (
    LABELS,
    MAX_VALUES,
    MetricSpec,
    declared_metrics,
    prometheus_label,
    prometheus_name,
)


def metrics_page() -> str:
    """The whole page as Markdown."""
    metrics, labels = (
        "\n".join(map(_metric_line, declared_metrics())),
        "\n".join(
            f"| `{name}` | `{prometheus_label(name)}` | {meaning} |" for name, meaning in LABELS.items()
        ),
    )
    return f"""\
{GENERATED}

# Metrics

Every metric of the services, by its name in OpenTelemetry and in Prometheus. To get at them:
[Watch Warrener with Prometheus and Grafana](../howto/watch-with-prometheus.md).

| metric | in Prometheus | kind, unit | labels | of | |
|---|---|---|---|---|---|
{metrics}

Counters count since the start of their process. A histogram is the series `_bucket`, `_sum` and `_count` in
Prometheus. Gauges of the supervisor are reported by one supervisor at a time, the others leave them out; all
other metrics are of the process that reports them, and are summed over processes.

## Labels

A label whose value is empty is left out. A label has at most {MAX_VALUES} values in a process, later ones are
written as `other`; no label holds an identifier or a text.

| label | in Prometheus | values |
|---|---|---|
{labels}

Metrics of messages also have `messaging.system` (`rabbitmq`) and `messaging.operation.name`, as
OpenTelemetry's conventions for messaging say. The attributes of the service are labels of `target_info` in
Prometheus.
"""


def _metric_line(spec: MetricSpec) -> str:
    labels = ", ".join(f"`{name}`" for name in spec.labels)
    services = ", ".join(spec.services)
    return (
        f"| `{spec.name}` | `{prometheus_name(spec)}` | {spec.kind}, `{spec.unit}` | {labels} "
        f"| {services} | {spec.description} |"
    )
