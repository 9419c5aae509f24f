"""Endpoints of spans: Warrener's own settings first, then OpenTelemetry's variables by its specification."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, cast, get_args

from warrener_runtime.logs import get_logger
from warrener_runtime.secrets import mask

OtlpProtocol = Literal["grpc", "http/protobuf"]

_TRACES_PATH = "/v1/traces"

log = get_logger("telemetry")


class OtlpEndpoint(NamedTuple):
    """A collector. Over HTTP the URL is complete, with the path for traces."""

    url: str
    protocol: OtlpProtocol


def otlp_endpoint(
    url: str | None, protocol: OtlpProtocol | None, environ: Mapping[str, str]
) -> OtlpEndpoint | None:
    """Choose the collector; None if tracing is off.

    `url` and `protocol` are Warrener's settings, None if not given. Without `url`,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is used as it is, and OTEL_EXPORTER_OTLP_ENDPOINT with the path for
    traces appended. OTEL_TRACES_EXPORTER=none and OTEL_SDK_DISABLED=true switch tracing off.
    """

    def variable(name: str) -> str:
        return environ.get(name, "").strip()

    if variable("OTEL_SDK_DISABLED").lower() == "true" or not _exports_otlp(variable("OTEL_TRACES_EXPORTER")):
        return None
    own, base = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), variable("OTEL_EXPORTER_OTLP_ENDPOINT")
    named = variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or variable("OTEL_EXPORTER_OTLP_PROTOCOL")
    if url is not None:
        chosen = protocol or _known_protocol(named) or "grpc"
        has_path = url.partition("://")[2].rstrip("/").count("/") > 0
        return OtlpEndpoint(url if chosen == "grpc" or has_path else _with_path(url), chosen)
    if not own and not base:
        return None
    chosen = protocol or _known_protocol(named) or "http/protobuf"
    return OtlpEndpoint(own or (base if chosen == "grpc" else _with_path(base)), chosen)


def log_missing_exporter(endpoint: OtlpEndpoint, missing: ModuleNotFoundError) -> None:
    """Log that nothing is sent to the endpoint, as the packages for it are not installed."""
    log.warning(
        f"Tracing is off: expected OpenTelemetry's SDK and exporter, got no module {missing.name};"
        " install the extra `otlp` of this package.",
        action="telemetry.exporter_missing",
        endpoint=mask(endpoint.url),
    )


def _exports_otlp(exporters: str) -> bool:
    named = {name.strip() for name in exporters.split(",")} - {""}
    if unknown := sorted(named - {"otlp", "none"}):
        _ignore("OTEL_TRACES_EXPORTER", "otlp or none", ",".join(unknown))
    return "none" not in named


def _known_protocol(name: str) -> OtlpProtocol | None:
    if not name or name in get_args(OtlpProtocol):
        return cast("OtlpProtocol | None", name or None)
    _ignore("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc or http/protobuf", name)
    return None


def _with_path(base: str) -> str:
    return base.rstrip("/") + _TRACES_PATH


def _ignore(variable: str, expected: str, value: str) -> None:
    log.warning(
        f"{variable}: expected {expected}, got {value!r}; it is ignored.",
        action="telemetry.variable_ignored",
        variable=variable,
    )
