"""OTLP's two transports: the SDK's exporters, with their variables (OTEL_EXPORTER_OTLP_...), retries and
credentials. What they send is written by our encoder."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit, urlunsplit

from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from warrener_runtime.telemetry.encoding import encoder
from warrener_runtime.telemetry.finished_span import EndedSpan, SpanOrigin, to_readable_span

OtlpProtocol = Literal["grpc", "http/protobuf"]

_EXPORT_SECONDS = 5


class OtlpExporter(Protocol):
    """Sends spans."""

    def export(self, spans: Sequence[EndedSpan]) -> bool:
        """False, or an exception, where they did not arrive. Blocks."""
        ...

    def shutdown(self) -> None:
        """Let go of the connection."""
        ...


class HandEncodedExporter:
    """Written by us, sent as bytes."""

    def __init__(
        self, origin: SpanOrigin, send: Callable[[bytes], bool], shutdown: Callable[[], object]
    ) -> None:
        self._encode, self._send, self._shutdown = encoder(origin), send, shutdown

    def export(self, spans: Sequence[EndedSpan]) -> bool:
        succeeded = [self._send(request) for request in self._encode(spans)]
        return all(succeeded)

    def shutdown(self) -> None:
        self._shutdown()


class SdkExporter:
    """Written and sent by an exporter of the SDK."""

    def __init__(self, origin: SpanOrigin, inner: SpanExporter) -> None:
        self._origin, self._inner = origin, inner

    def export(self, spans: Sequence[EndedSpan]) -> bool:
        converted = [to_readable_span(span, self._origin) for span in spans]
        return self._inner.export(converted) is SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self._inner.shutdown()


def otlp_exporter(origin: SpanOrigin, endpoint: str, protocol: OtlpProtocol) -> OtlpExporter:
    """The exporter for one of the two."""
    return _grpc(origin, endpoint) if protocol == "grpc" else _http(origin, endpoint)


def _grpc(origin: SpanOrigin, endpoint: str) -> OtlpExporter:
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415 - loads grpcio
        OTLPSpanExporter as GrpcExporter,
    )
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415 - likewise
        ExportTraceServiceRequest,
    )

    class Written(GrpcExporter):
        def _translate_data(self, data: Any) -> ExportTraceServiceRequest:
            request: ExportTraceServiceRequest = ExportTraceServiceRequest.FromString(data)
            return request

    settings: dict[str, Any] = {
        "endpoint": endpoint,
        "insecure": urlsplit(endpoint).scheme == "http",
        "timeout": _EXPORT_SECONDS,
    }
    if not hasattr(GrpcExporter, "_translate_data"):  # not public: another release may do without
        return SdkExporter(origin, GrpcExporter(**settings))
    written: Any = Written(**settings)
    return HandEncodedExporter(
        origin, lambda raw: written.export(raw) is SpanExportResult.SUCCESS, written.shutdown
    )


def _http(origin: SpanOrigin, endpoint: str) -> OtlpExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - loads requests
        OTLPSpanExporter as HttpExporter,
    )

    exporter: Any = HttpExporter(endpoint=_traces_url(endpoint), timeout=_EXPORT_SECONDS)
    client: Any = getattr(exporter, "_client", None)
    if not hasattr(client, "export"):  # not public: another release may do without
        return SdkExporter(origin, exporter)
    return HandEncodedExporter(origin, lambda raw: bool(client.export(raw).success), exporter.shutdown)


def _traces_url(endpoint: str) -> str:
    """OTLP over HTTP wants the path of the signal; an endpoint without a path gets it."""
    parts = urlsplit(endpoint)
    return endpoint if parts.path.strip("/") else urlunsplit(parts._replace(path="/v1/traces"))
