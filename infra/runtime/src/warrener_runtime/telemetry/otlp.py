"""OpenTelemetry's variables by its specification: where traces and metrics are sent, unless a setting of ours
names it, and the attributes of a service. Needs no SDK."""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast, get_args
from urllib.parse import unquote, urlsplit

from uuid_utils.compat import uuid7

from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import names

OtlpProtocol = Literal["grpc", "http/protobuf"]
Signal = Literal["traces", "metrics"]

_DEFAULT_ENDPOINTS: Mapping[OtlpProtocol, str] = {
    "grpc": "http://localhost:4317",
    "http/protobuf": "http://localhost:4318",
}
_CHATTY = ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal")
_INDEFINITE = 86_400.0  # seconds; OpenTelemetry's 0 means no timeout

T = TypeVar("T")
log = get_logger("telemetry")


class OtlpEndpoint(NamedTuple):
    """A collector. Over HTTP the URL is complete, with the path for the signal."""

    url: str
    protocol: OtlpProtocol


class OtlpVariables:
    """OpenTelemetry's variables for one signal. One that cannot be used is logged and ignored."""

    def __init__(self, signal: Signal, environ: Mapping[str, str]) -> None:
        self._signal: Signal = signal
        self._environ = environ

    def value(self, name: str) -> str:
        """Read a variable; empty if it is not set."""
        return self._environ.get(name, "").strip()

    def otlp(self, name: str) -> str:
        """Read OTEL_EXPORTER_OTLP_TRACES_… or OTEL_EXPORTER_OTLP_METRICS_…, else OTEL_EXPORTER_OTLP_…."""
        return self.value(self._own(name)) or self.value(f"OTEL_EXPORTER_OTLP_{name}")

    def whole_number(self, *names: str) -> int | None:
        """Read the first of these that is a whole number."""
        for name in names:
            value = self.value(name)
            if value.isdecimal():
                return int(value)
            if value:
                self.ignore(name, "a whole number of at least 0", value)
        return None

    def timeout(self, of_batch: str) -> float:
        """Read how long one export may take, retries included, in seconds (default 10).

        The specification counts milliseconds, where the SDK's exporters for Python count seconds.
        `of_batch` is the variable of the part that makes batches (default 30); the shorter one counts.
        """
        exporter = self.whole_number(self._own("TIMEOUT"), "OTEL_EXPORTER_OTLP_TIMEOUT")
        batch = self.whole_number(of_batch)
        limits = (10_000 if exporter is None else exporter, 30_000 if batch is None else batch)
        return min(limit / 1000 if limit else _INDEFINITE for limit in limits)

    def exporters(self, *known: str) -> set[str]:
        """Read which of these exporters are named; `none` if the SDK is disabled."""
        if self.value("OTEL_SDK_DISABLED").lower() == "true":
            return {"none"}
        variable = f"OTEL_{self._signal.upper()}_EXPORTER"
        named = {name.strip() for name in self.value(variable).split(",")} - {""}
        if unknown := sorted(named.difference(known)):
            self.ignore(variable, f"{', '.join(known[:-1])} or {known[-1]}", ",".join(unknown))
        return named.intersection(known)

    def endpoint(
        self, protocol: OtlpProtocol | None = None, *, required: bool = False
    ) -> OtlpEndpoint | None:
        """Choose the collector, by this protocol if one is given; None if no variable names one and none is
        required."""
        protocol = protocol or self.protocol() or "http/protobuf"
        if own := self.value(self._own("ENDPOINT")):
            return OtlpEndpoint(own, protocol)
        base = self.value("OTEL_EXPORTER_OTLP_ENDPOINT")
        if not base and not required:
            return None
        return self.at(base or _DEFAULT_ENDPOINTS[protocol], protocol)

    def at(self, base: str, protocol: OtlpProtocol) -> OtlpEndpoint:
        """Append the path for the signal to the base of an endpoint over HTTP."""
        path = "" if protocol == "grpc" else f"/v1/{self._signal}"
        return OtlpEndpoint(base.rstrip("/") + path if path else base, protocol)

    def protocol(self) -> OtlpProtocol | None:
        name = self.otlp("PROTOCOL")
        if not name or name in get_args(OtlpProtocol):
            return cast("OtlpProtocol | None", name or None)
        self.ignore("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc or http/protobuf", name)
        return None

    def ignore(self, variable: str, expected: str, value: str) -> None:
        log.warning(
            f"{variable}: expected {expected}, got {value!r}; it is ignored.",
            action="telemetry.variable_ignored",
            variable=variable,
        )

    def _own(self, name: str) -> str:
        return f"OTEL_EXPORTER_OTLP_{self._signal.upper()}_{name}"


def trace_endpoint(
    url: str | None, protocol: OtlpProtocol | None, environ: Mapping[str, str]
) -> OtlpEndpoint | None:
    """Choose the collector of spans; None if tracing is off.

    `url` and `protocol` are Warrener's settings, None if not given. Without `url`,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is used as it is, and OTEL_EXPORTER_OTLP_ENDPOINT with the path for
    traces appended. OTEL_TRACES_EXPORTER=none and OTEL_SDK_DISABLED=true switch tracing off.
    """
    variables = OtlpVariables("traces", environ)
    if "none" in variables.exporters("otlp", "none"):
        return None
    if url is None:
        return variables.endpoint(protocol)
    chosen = protocol or variables.protocol() or "grpc"
    has_path = url.partition("://")[2].rstrip("/").count("/") > 0
    return OtlpEndpoint(url, chosen) if has_path else variables.at(url, chosen)


@dataclass(frozen=True, slots=True)
class MetricSettings:
    """Where metrics go. `endpoint`: the collector to push to, or None. Times are in seconds."""

    enabled: bool = True
    endpoint: OtlpEndpoint | None = None
    interval: float = 60.0
    timeout: float = 10.0


def metric_settings(environ: Mapping[str, str]) -> MetricSettings:
    """Read OpenTelemetry's variables for metrics.

    Metrics are recorded, and served at /metrics, unless OTEL_SDK_DISABLED is true or OTEL_METRICS_EXPORTER is
    `none`. They are pushed if an endpoint is set, or if OTEL_METRICS_EXPORTER names `otlp`, which then has
    the specification's default endpoint; `prometheus` alone pushes nothing.
    """
    variables = OtlpVariables("metrics", environ)
    named = variables.exporters("otlp", "prometheus", "none")
    if "none" in named:
        return MetricSettings(enabled=False)
    if named and "otlp" not in named:
        return MetricSettings()
    preference = variables.otlp("TEMPORALITY_PREFERENCE").lower()
    if preference not in {"", "cumulative"}:
        variables.ignore("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "cumulative", preference)
    return MetricSettings(
        endpoint=variables.endpoint(required="otlp" in named),
        interval=(variables.whole_number("OTEL_METRIC_EXPORT_INTERVAL") or 60_000) / 1000,
        timeout=variables.timeout("OTEL_METRIC_EXPORT_TIMEOUT"),
    )


class OtlpExporter(NamedTuple, Generic[T]):
    """Sends spans or metrics. `send` blocks, and raises an exception if they did not arrive. `close` ends the
    connection and all retries, and may be called twice."""

    send: Callable[[T], None]
    close: Callable[[], object]


def grpc_exporter(
    exporter: Callable[..., Any], url: str, timeout: float, convert: Callable[[Any], Any] = lambda data: data
) -> OtlpExporter[Any]:
    """Make an exporter of the SDK, which gets what `convert` returns. Quiet its log, which has a traceback
    for each failure."""
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    scheme = urlsplit(url).scheme
    insecure = scheme == "http" if scheme in {"http", "https"} else None  # else as OTEL_..._INSECURE says
    inner = exporter(endpoint=url, insecure=insecure, timeout=timeout)

    def send(data: object) -> None:
        if inner.export(convert(data)).name != "SUCCESS":
            raise ConnectionError("it does not answer, or refused them")

    return OtlpExporter(send, inner.shutdown)


def service_resource(service_name: str) -> dict[str, str]:
    """Describe a service; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win."""
    found = {
        names.SERVICE_NAME: service_name,
        names.SERVICE_VERSION: service_version(),
        names.SERVICE_INSTANCE_ID: str(uuid7()),
        **named_resource(),
    }
    if own_name := os.environ.get("OTEL_SERVICE_NAME", "").strip():
        found[names.SERVICE_NAME] = own_name
    return found


def named_resource() -> dict[str, str]:
    """Read OTEL_RESOURCE_ATTRIBUTES."""
    pairs = (pair.partition("=") for pair in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","))
    return {name.strip(): unquote(value.strip()) for name, given, value in pairs if given and name.strip()}


def service_version() -> str:
    """The version of the runtime, which all services share."""
    try:
        return version("warrener-runtime")
    except PackageNotFoundError:  # run from the sources
        return "0"
