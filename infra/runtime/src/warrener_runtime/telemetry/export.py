"""Sends ended spans to a collector: in batches, by a thread of its own, and never at the service's cost.

Over HTTP a request has what our encoder writes. Over gRPC the SDK's exporter encodes the spans, which costs
about ten times as much processor time.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import environ
from typing import Self

from opentelemetry.sdk.trace import ReadableSpan

from warrener_runtime.logs import get_logger
from warrener_runtime.secrets import mask, shown
from warrener_runtime.telemetry.encoding import encoder
from warrener_runtime.telemetry.metric_names import SPANS_DROPPED
from warrener_runtime.telemetry.metrics import Metrics
from warrener_runtime.telemetry.otlp import OtlpEndpoint, OtlpExporter, OtlpVariables, grpc_exporter
from warrener_runtime.telemetry.otlp_http import http_exporter
from warrener_runtime.telemetry.recorder import EndedSpan, SpanRecorder, origin_of, to_readable_span
from warrener_runtime.telemetry.sdk_spans import SpanOrigin

_LOG_INTERVAL = 60.0  # seconds

SpanExporter = OtlpExporter[Sequence[EndedSpan]]
log = get_logger("telemetry")


def make_exporting_recorder(
    resource: Mapping[str, str], endpoint: OtlpEndpoint, metrics: Metrics
) -> "tuple[SpanRecorder, BatchingSink]":
    """Make a recorder whose spans are sent to `endpoint`; `metrics` counts those that are not."""
    origin = origin_of(resource)
    sink = BatchingSink(
        otlp_exporter(origin, endpoint), LossLog(endpoint.url), Batching.from_variables(_variables())
    )
    metrics.counter(SPANS_DROPPED).observe(lambda: {(): sink.losses.total})
    return SpanRecorder(origin, sink.put), sink


def otlp_exporter(origin: SpanOrigin, endpoint: OtlpEndpoint) -> SpanExporter:
    timeout = _variables().timeout("OTEL_BSP_EXPORT_TIMEOUT")
    if endpoint.protocol != "grpc":
        return http_exporter("traces", endpoint.url, timeout, encoder(origin))
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - loads grpcio

    def readable(spans: Sequence[EndedSpan]) -> list[ReadableSpan]:
        return [to_readable_span(span, origin) for span in spans]

    return grpc_exporter(OTLPSpanExporter, endpoint.url, timeout, readable)


def _variables() -> OtlpVariables:
    return OtlpVariables("traces", environ)


# -- batches -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Batching:
    """Size and delay of batches. OpenTelemetry's own defaults would lose most spans of a busy service: some
    thousand a second against a queue of 2,048."""

    delay: float = 1.0  # seconds
    batch: int = 2048
    max_queue: int = 32_768  # pending spans; more are dropped

    @classmethod
    def from_variables(cls, variables: OtlpVariables) -> Self:
        """Read OTEL_BSP_...; 0 is the default."""
        default, number = cls(), variables.whole_number
        return cls(
            delay=(number("OTEL_BSP_SCHEDULE_DELAY") or default.delay * 1000) / 1000,
            batch=number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE") or default.batch,
            max_queue=number("OTEL_BSP_MAX_QUEUE_SIZE") or default.max_queue,
        )


class LossLog:
    """Counts the spans that were lost, and logs them at most once a minute; a last line has their number once
    the collector takes spans again, or the service ends."""

    def __init__(self, endpoint: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._endpoint = mask(endpoint)
        self._logged_at: float | None = None
        self._unlogged = 0
        self._lost_in_outage = 0
        self.total = 0
        """Spans that were lost since the start."""

    def add(self, count: int, reason: str) -> None:
        """Count lost spans, and log them if a minute has passed since the last line."""
        self._unlogged += count
        self.total += count
        self._lost_in_outage += count
        now = self._monotonic()
        if self._logged_at is not None and now - self._logged_at < _LOG_INTERVAL:
            return
        self._logged_at = now
        log.warning(
            "Spans could not be sent to the collector and are lost; the service goes on.",
            action="telemetry.export_failed",
            endpoint=self._endpoint,
            lost=self._unlogged,
            reason=shown(reason),
        )
        self._unlogged = 0

    def recover(self) -> None:
        """Log the end of an outage, if there was one."""
        if self._lost_in_outage:
            self._log_end("Spans reach the collector again.", "telemetry.export_recovered")

    def close(self) -> None:
        """Log what is not logged yet. May be called twice."""
        if self._unlogged:
            self._log_end("The service ends; spans were lost.", "telemetry.export_ended")

    def _log_end(self, text: str, action: str) -> None:
        lost, self._lost_in_outage = self._lost_in_outage, 0
        self._logged_at, self._unlogged = None, 0
        log.warning(text, action=action, endpoint=self._endpoint, lost=lost)


class BatchingSink:
    """A bounded queue, which a thread empties: ending a span never waits, and a span that does not fit is
    dropped. Spans that the exporter fails to send are lost."""

    def __init__(self, exporter: SpanExporter, losses: LossLog, batching: Batching) -> None:
        self._exporter, self._batching = exporter, batching
        self.losses = losses
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
            self.losses.add(lost, "the service ends before they were sent")
        self._end()

    def _run(self) -> None:
        while not self._over:
            self._wakeup.wait(self._batching.delay)
            self._wakeup.clear()
            self._flush()
        self._flush()
        self._end()

    def _end(self) -> None:
        self.losses.close()
        self._exporter.close()

    def _flush(self) -> None:
        if dropped := self._take_dropped():
            self.losses.add(dropped, f"more than {self._batching.max_queue} wait to be sent")
        pending = self._pending
        while count := min(len(pending), self._batching.batch):
            self._send([pending.popleft() for _ in range(count)])

    def _send(self, spans: Sequence[EndedSpan]) -> None:
        try:
            self._exporter.send(spans)
        except Exception as error:  # noqa: BLE001 - no failure of a collector may reach the service
            self.losses.add(len(spans), str(error))
        else:
            self.losses.recover()

    def _take_dropped(self) -> int:
        with self._counting:
            dropped, self._dropped = self._dropped, 0
        return dropped
