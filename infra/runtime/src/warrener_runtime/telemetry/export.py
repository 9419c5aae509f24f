"""Sends ended spans to a collector: in batches, by a thread of its own, and never at the service's cost.

The SDK's OTLP exporters carry what our encoder writes, with their retries, credentials and variables. They
expose no public way to send bytes; where a release lacks the private one, the SDK encodes the spans too.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import environ
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

from opentelemetry.sdk.environment_variables import (
    OTEL_BSP_EXPORT_TIMEOUT,
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE,
    OTEL_BSP_MAX_QUEUE_SIZE,
    OTEL_BSP_SCHEDULE_DELAY,
    OTEL_EXPORTER_OTLP_TIMEOUT,
    OTEL_EXPORTER_OTLP_TRACES_TIMEOUT,
)
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from warrener_runtime.logs import get_logger
from warrener_runtime.secrets import mask, shown
from warrener_runtime.telemetry.encoding import encoder
from warrener_runtime.telemetry.endpoint import OtlpEndpoint
from warrener_runtime.telemetry.live_span import EndedSpan, SpanOrigin, to_readable_span
from warrener_runtime.telemetry.metric_names import SPANS_DROPPED
from warrener_runtime.telemetry.metrics import Metrics
from warrener_runtime.telemetry.recorder import SpanRecorder, origin_of

_LOG_INTERVAL = 60.0  # seconds
_CHATTY = ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal", "opentelemetry.sdk.trace.export")
_INDEFINITE = 86_400.0  # seconds; OpenTelemetry's 0 means no timeout

log = get_logger("telemetry")


def make_exporting_recorder(service_name: str, endpoint: OtlpEndpoint, metrics: Metrics) -> SpanRecorder:
    """Make a recorder whose spans are sent to `endpoint`; `metrics` counts those that are not."""
    for name in _CHATTY:  # they log each failure with a traceback; ours logs one line a minute
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    origin = origin_of(service_name)
    exporter = FaultTolerantExporter(otlp_exporter(origin, endpoint), endpoint.url)
    metrics.counter(SPANS_DROPPED).observe(lambda: exporter.total_lost)
    return SpanRecorder(origin, BatchingSink(exporter, Batching.from_environment()))


# -- batches -----------------------------------------------------------------------------------------------


class Exporter(Protocol):
    """Sends spans. Raises nothing."""

    def send(self, spans: Sequence[EndedSpan]) -> None:
        """Send these. Blocks."""
        ...

    def on_lost(self, count: int, reason: str) -> None:
        """Record that so many spans were not sent."""
        ...

    def close(self) -> None:
        """Send nothing more, and stop retrying. May be called twice."""
        ...


@dataclass(frozen=True, slots=True)
class Batching:
    """Size and delay of batches. OpenTelemetry's own defaults would lose most spans of a busy service: some
    thousand a second against a queue of 2,048."""

    delay: float = 1.0  # seconds
    batch: int = 2048
    max_queue: int = 32_768  # pending spans; more are dropped

    @classmethod
    def from_environment(cls) -> Self:
        """Read OpenTelemetry's variables (OTEL_BSP_...)."""
        default = cls()
        delay = _whole_number(OTEL_BSP_SCHEDULE_DELAY)
        return cls(
            delay=default.delay if not delay else delay / 1000,
            batch=_whole_number(OTEL_BSP_MAX_EXPORT_BATCH_SIZE) or default.batch,
            max_queue=_whole_number(OTEL_BSP_MAX_QUEUE_SIZE) or default.max_queue,
        )


class BatchingSink:
    """A bounded queue: ending a span never waits, and a span that does not fit is dropped."""

    def __init__(self, exporter: Exporter, batching: Batching) -> None:
        self._exporter, self._batching = exporter, batching
        self._pending: deque[EndedSpan] = deque()
        self._dropped = 0
        self._counting = threading.Lock()
        self._wakeup = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def put(self, span: EndedSpan) -> None:
        """Send a span soon. May be called in any thread."""
        pending = self._pending
        if len(pending) >= self._batching.max_queue:
            with self._counting:
                self._dropped += 1
            return
        pending.append(span)
        if len(pending) == self._batching.batch:
            self._wakeup.set()

    def close(self) -> None:
        """Send what is left. Blocks."""
        self._over = True
        self._wakeup.set()
        self._thread.join()

    def give_up(self) -> None:
        """Drop what is pending, and stop retrying."""
        self._over = True
        lost = len(self._pending) + self._take_dropped()
        self._pending.clear()
        if lost:
            self._exporter.on_lost(lost, "the service ends before they were sent")
        self._exporter.close()

    def _run(self) -> None:
        while not self._over:
            self._wakeup.wait(self._batching.delay)
            self._wakeup.clear()
            self._flush()
        self._flush()
        self._exporter.close()

    def _flush(self) -> None:
        if dropped := self._take_dropped():
            self._exporter.on_lost(dropped, f"more than {self._batching.max_queue} wait to be sent")
        pending = self._pending
        while count := min(len(pending), self._batching.batch):
            self._exporter.send([pending.popleft() for _ in range(count)])

    def _take_dropped(self) -> int:
        with self._counting:
            dropped, self._dropped = self._dropped, 0
        return dropped


# -- exporters ---------------------------------------------------------------------------------------------


class OtlpExporter(Protocol):
    """Sends spans to a collector."""

    def export(self, spans: Sequence[EndedSpan]) -> bool:
        """Send spans; False, or an exception, if they did not arrive. Blocks."""
        ...

    def shutdown(self) -> None:
        """Close the connection."""
        ...


class FaultTolerantExporter:
    """Passes spans on. A failure costs these spans, and at most one log line a minute; a last line has their
    number once the collector takes spans again, or the service ends."""

    def __init__(
        self, inner: OtlpExporter, endpoint: str, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._inner = inner
        self._monotonic = monotonic
        self._endpoint = mask(endpoint)
        self._logged_at: float | None = None
        self._lost = 0  # since the last line
        self._lost_in_outage = 0
        self.total_lost = 0
        """Spans that were lost since the start."""

    def send(self, spans: Sequence[EndedSpan]) -> None:
        """Send spans. Raises nothing."""
        try:
            succeeded = self._inner.export(spans)
        except Exception as error:  # noqa: BLE001 - no failure of a collector may reach the service
            self.on_lost(len(spans), str(error))
            return
        if not succeeded:
            self.on_lost(len(spans), "it does not answer, or refused them")
        elif self._lost_in_outage:
            self._log_recovery("Spans reach the collector again.", "telemetry.export_recovered")

    def on_lost(self, count: int, reason: str) -> None:
        """Count lost spans, and log them if a minute has passed since the last line."""
        self._lost += count
        self.total_lost += count
        self._lost_in_outage += count
        now = self._monotonic()
        if self._logged_at is not None and now - self._logged_at < _LOG_INTERVAL:
            return
        self._logged_at = now
        log.warning(
            "Spans could not be sent to the collector and are lost; the service goes on.",
            action="telemetry.export_failed",
            endpoint=self._endpoint,
            lost=self._lost,
            reason=shown(reason),
        )
        self._lost = 0

    def _log_recovery(self, text: str, action: str) -> None:
        lost, self._lost_in_outage = self._lost_in_outage, 0
        self._logged_at, self._lost = None, 0
        log.warning(text, action=action, endpoint=self._endpoint, lost=lost)

    def close(self) -> None:
        """Send nothing more, and stop retrying. May be called twice."""
        if self._lost:
            self._log_recovery("The service ends; spans were lost.", "telemetry.export_ended")
        self._inner.shutdown()


class HandEncodedExporter:
    """Sends the bytes that our encoder writes."""

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
    """Sends and encodes by an exporter of the SDK."""

    def __init__(self, origin: SpanOrigin, inner: SpanExporter) -> None:
        self._origin, self._inner = origin, inner

    def export(self, spans: Sequence[EndedSpan]) -> bool:
        converted = [to_readable_span(span, self._origin) for span in spans]
        return self._inner.export(converted) is SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self._inner.shutdown()


def otlp_exporter(origin: SpanOrigin, endpoint: OtlpEndpoint) -> OtlpExporter:
    """Make the exporter for the endpoint's protocol."""
    return _grpc(origin, endpoint.url) if endpoint.protocol == "grpc" else _http(origin, endpoint.url)


def _grpc(origin: SpanOrigin, endpoint: str) -> OtlpExporter:
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415 - loads grpcio
        OTLPSpanExporter as GrpcExporter,
    )
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415 - likewise
        ExportTraceServiceRequest,
    )

    class BytesExporter(GrpcExporter):
        def _translate_data(self, data: Any) -> ExportTraceServiceRequest:
            request: ExportTraceServiceRequest = ExportTraceServiceRequest.FromString(data)
            return request

    scheme = urlsplit(endpoint).scheme
    settings: dict[str, Any] = {
        "endpoint": endpoint,
        "insecure": scheme == "http"
        if scheme in {"http", "https"}
        else None,  # else as OTEL_..._INSECURE says
        "timeout": export_timeout(),
    }
    if not _sends_bytes(GrpcExporter, "_translate_data"):
        return SdkExporter(origin, GrpcExporter(**settings))
    exporter: Any = BytesExporter(**settings)
    return HandEncodedExporter(
        origin, lambda raw: exporter.export(raw) is SpanExportResult.SUCCESS, exporter.shutdown
    )


def _http(origin: SpanOrigin, endpoint: str) -> OtlpExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - loads requests
        OTLPSpanExporter as HttpExporter,
    )

    exporter: Any = HttpExporter(endpoint=endpoint, timeout=export_timeout())
    client: Any = getattr(exporter, "_client", None)
    if not _sends_bytes(client, "export"):
        return SdkExporter(origin, exporter)
    return HandEncodedExporter(origin, lambda raw: bool(client.export(raw).success), exporter.shutdown)


def _sends_bytes(exporter: object, private_method: str) -> bool:
    """True if this release of the exporter has the private method by which encoded requests can be sent."""
    return hasattr(exporter, private_method)


# -- variables ---------------------------------------------------------------------------------------------


def export_timeout() -> float:
    """Read how long one export may take, retries included, in seconds (default 10).

    The specification counts milliseconds, where the SDK's exporters for Python count seconds.
    """
    exporter = _whole_number(OTEL_EXPORTER_OTLP_TRACES_TIMEOUT)
    if exporter is None:
        exporter = _whole_number(OTEL_EXPORTER_OTLP_TIMEOUT)
    processor = _whole_number(OTEL_BSP_EXPORT_TIMEOUT)
    limits = (10_000 if exporter is None else exporter, 30_000 if processor is None else processor)
    return min(limit / 1000 if limit else _INDEFINITE for limit in limits)


def _whole_number(variable: str) -> int | None:
    """Read a whole number; None if the variable is unset or empty, or, with a warning, if it is malformed."""
    value = environ.get(variable, "").strip()
    if value.isdecimal():
        return int(value)
    if value:
        log.warning(
            f"{variable}: expected a whole number of at least 0, got {value!r}; it is ignored.",
            action="telemetry.variable_ignored",
            variable=variable,
        )
    return None
