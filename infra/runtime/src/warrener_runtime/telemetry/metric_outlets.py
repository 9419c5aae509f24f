"""The ways of metrics out of a service, by OpenTelemetry's variables: scraped, or pushed to a collector.

The SDK is imported only where metrics are pushed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING
from urllib.parse import unquote

from uuid_utils.compat import uuid7

from warrener_runtime.logs import get_logger
from warrener_runtime.secrets import mask
from warrener_runtime.telemetry import names
from warrener_runtime.telemetry.endpoint import OtlpEndpoint, OtlpProtocol

if TYPE_CHECKING:
    from warrener_runtime.telemetry.metrics import Metrics
    from warrener_runtime.telemetry.otlp_metrics import MetricPusher

_PATH = "/v1/metrics"
_DEFAULT_HTTP, _DEFAULT_GRPC = "http://localhost:4318", "http://localhost:4317"
_INTERVAL, _TIMEOUT = 60.0, 30.0  # seconds; the specification's
_INDEFINITE = 86_400.0  # seconds
_EXPORTERS = frozenset({"otlp", "prometheus", "none"})
_PROTOCOLS: Mapping[str, OtlpProtocol] = {"grpc": "grpc", "http/protobuf": "http/protobuf"}

log = get_logger("telemetry")


@dataclass(frozen=True, slots=True)
class MetricSettings:
    """The choice that the variables make. `endpoint`: the collector to push to, or None."""

    enabled: bool = True
    endpoint: OtlpEndpoint | None = None
    interval: float = _INTERVAL
    timeout: float = _TIMEOUT


def metric_settings(environ: Mapping[str, str]) -> MetricSettings:
    """Read OpenTelemetry's variables for metrics.

    Metrics are recorded, and served at /metrics, unless OTEL_SDK_DISABLED is true or OTEL_METRICS_EXPORTER is
    `none`. They are pushed if an endpoint is set, or if OTEL_METRICS_EXPORTER names `otlp`, which then has
    the specification's default endpoint; `prometheus` alone pushes nothing.
    """

    def variable(name: str) -> str:
        return environ.get(name, "").strip()

    named = {name.strip() for name in variable("OTEL_METRICS_EXPORTER").split(",")} - {""}
    if unknown := sorted(named - _EXPORTERS):
        _ignore("OTEL_METRICS_EXPORTER", "otlp, prometheus or none", ",".join(unknown))
        named &= _EXPORTERS
    if variable("OTEL_SDK_DISABLED").lower() == "true" or "none" in named:
        return MetricSettings(enabled=False)
    if named and "otlp" not in named:
        return MetricSettings()
    preference = variable("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE").lower()
    if preference not in {"", "cumulative"}:
        _ignore("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "cumulative", preference)
    return MetricSettings(
        endpoint=_endpoint(variable, required="otlp" in named),
        interval=_seconds("OTEL_METRIC_EXPORT_INTERVAL", environ, _INTERVAL),
        timeout=_timeout(environ),
    )


def start_pushing(
    metrics: "Metrics", settings: MetricSettings, resource: Callable[[], Mapping[str, str]]
) -> "MetricPusher | None":
    """Push metrics to the endpoint of the settings, from a thread; None without one or without the SDK."""
    if settings.endpoint is None:
        return None
    try:
        from warrener_runtime.telemetry.otlp_metrics import MetricPusher  # noqa: PLC0415 - loads the SDK
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("opentelemetry"):
            raise
        log.warning(
            f"Metrics are not pushed: expected OpenTelemetry's SDK and exporter, got no {missing.name};"
            " install the extra `otlp` of this package, or scrape /metrics.",
            action="telemetry.exporter_missing",
            endpoint=mask(settings.endpoint.url),
        )
        return None
    return MetricPusher(metrics, settings.endpoint, settings, resource)


def service_resource(service_name: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Describe a service without the SDK; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win."""
    found = {
        names.SERVICE_NAME: service_name,
        names.SERVICE_VERSION: service_version(),
        names.SERVICE_INSTANCE_ID: str(uuid7()),
        **named_resource(environ),
    }
    if own_name := environ.get("OTEL_SERVICE_NAME", "").strip():
        found[names.SERVICE_NAME] = own_name
    return found


def named_resource(environ: Mapping[str, str]) -> dict[str, str]:
    """Read OTEL_RESOURCE_ATTRIBUTES."""
    pairs = (pair.partition("=") for pair in environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","))
    return {name.strip(): unquote(value.strip()) for name, given, value in pairs if given and name.strip()}


def service_version() -> str:
    """The version of the runtime, which all services share."""
    try:
        return version("warrener-runtime")
    except PackageNotFoundError:  # run from the sources
        return "0"


def _endpoint(variable: Callable[[str], str], *, required: bool) -> OtlpEndpoint | None:
    own, base = variable("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"), variable("OTEL_EXPORTER_OTLP_ENDPOINT")
    named = variable("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL") or variable("OTEL_EXPORTER_OTLP_PROTOCOL")
    if named and named not in _PROTOCOLS:
        _ignore("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc or http/protobuf", named)
    protocol = _PROTOCOLS.get(named, "http/protobuf")
    if not own and not base:
        if not required:
            return None
        base = _DEFAULT_GRPC if protocol == "grpc" else _DEFAULT_HTTP
    if own or protocol == "grpc":
        return OtlpEndpoint(own or base, protocol)
    return OtlpEndpoint(base.rstrip("/") + _PATH, protocol)


def _timeout(environ: Mapping[str, str]) -> float:
    """The shortest of the limits that are set; each counts milliseconds, and 0 is no limit."""
    names: Sequence[str] = (
        "OTEL_METRIC_EXPORT_TIMEOUT",
        "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
    )
    return min(_seconds(name, environ, _TIMEOUT, zero=_INDEFINITE) for name in names)


def _seconds(name: str, environ: Mapping[str, str], default: float, *, zero: float | None = None) -> float:
    value = environ.get(name, "").strip()
    if value.isdecimal() and int(value):
        return int(value) / 1000
    if value.isdecimal() and zero is not None:
        return zero
    if value:
        _ignore(name, "a whole number of milliseconds", value)
    return default


def _ignore(variable: str, expected: str, value: str) -> None:
    log.warning(
        f"{variable}: expected {expected}, got {value!r}; it is ignored.",
        action="telemetry.variable_ignored",
        variable=variable,
    )
