"""Spans on their way to a collector: in the background, in batches, and never at the service's cost."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from warrener_runtime.logs import get_logger
from warrener_runtime.settings.secrets import mask
from warrener_runtime.telemetry.recording import Recorder

Protocol = Literal["grpc", "http/protobuf"]

_EXPORT_SECONDS = 5
_COMPLAIN_EVERY_SECONDS = 60.0
_CHATTY = ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal", "opentelemetry.sdk.trace.export")

log = get_logger("telemetry")


def exporting(service_name: str, endpoint: str, protocol: Protocol) -> Recorder:
    """A recorder whose spans are sent to `endpoint`."""
    for name in _CHATTY:  # they log each failure with a traceback; ours says it once a minute
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    exporter = ForbearingExporter(otlp_exporter(endpoint, protocol), endpoint)
    return Recorder(service_name, BatchSpanProcessor(exporter, schedule_delay_millis=1000))


def otlp_exporter(endpoint: str, protocol: Protocol) -> SpanExporter:
    """The exporter for one of OTLP's two transports."""
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415 - loads grpcio
            OTLPSpanExporter as GrpcExporter,
        )

        insecure = urlsplit(endpoint).scheme == "http"
        return GrpcExporter(endpoint=endpoint, insecure=insecure, timeout=_EXPORT_SECONDS)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - loads requests
        OTLPSpanExporter as HttpExporter,
    )

    return HttpExporter(endpoint=_traces_url(endpoint), timeout=_EXPORT_SECONDS)


def _traces_url(endpoint: str) -> str:
    """OTLP over HTTP wants the path of the signal; an endpoint without a path gets it."""
    parts = urlsplit(endpoint)
    return endpoint if parts.path.strip("/") else urlunsplit(parts._replace(path="/v1/traces"))


class ForbearingExporter(SpanExporter):
    """Passes spans on. A failure costs these spans, and one line in the log a minute at most."""

    def __init__(
        self, inner: SpanExporter, endpoint: str, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._inner = inner
        self._monotonic = monotonic
        self._endpoint = mask(endpoint)
        self._complained_at: float | None = None
        self._lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._inner.export(spans)
        except Exception as error:  # noqa: BLE001 - nothing that a collector does may reach the service
            self._complain(len(spans), str(error))
            return SpanExportResult.FAILURE
        if result is not SpanExportResult.SUCCESS:
            self._complain(len(spans), "it does not answer, or refused them")
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)

    def _complain(self, lost: int, reason: str) -> None:
        self._lost += lost
        now = self._monotonic()
        if self._complained_at is not None and now - self._complained_at < _COMPLAIN_EVERY_SECONDS:
            return
        self._complained_at = now
        log.warning(
            "Spans could not be sent to the collector and are lost; the service goes on.",
            action="telemetry.export_failed",
            endpoint=self._endpoint,
            lost=self._lost,
            reason=mask(reason),
        )
        self._lost = 0
