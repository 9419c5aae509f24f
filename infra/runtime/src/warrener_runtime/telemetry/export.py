"""Spans on their way to a collector: in the background, in batches, and never at the service's cost."""

import logging
import time
from collections.abc import Callable, Sequence

from warrener_runtime.logs import get_logger
from warrener_runtime.secrets import mask
from warrener_runtime.telemetry.batching import Batching, BatchingSink
from warrener_runtime.telemetry.finished_span import EndedSpan
from warrener_runtime.telemetry.otlp_exporters import OtlpExporter, OtlpProtocol, otlp_exporter
from warrener_runtime.telemetry.recorder import SpanRecorder, origin_of

_COMPLAIN_EVERY_SECONDS = 60.0
_CHATTY = ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal", "opentelemetry.sdk.trace.export")

log = get_logger("telemetry")


def make_exporting_recorder(service_name: str, endpoint: str, protocol: OtlpProtocol) -> SpanRecorder:
    """A recorder whose spans are sent to `endpoint`."""
    for name in _CHATTY:  # they log each failure with a traceback; ours says it once a minute
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    origin = origin_of(service_name)
    exporter = FaultTolerantExporter(otlp_exporter(origin, endpoint, protocol), endpoint)
    return SpanRecorder(origin, BatchingSink(exporter, Batching.from_environment()))


class FaultTolerantExporter:
    """Passes spans on. A failure costs these spans, and one line in the log a minute at most."""

    def __init__(
        self, inner: OtlpExporter, endpoint: str, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._inner = inner
        self._monotonic = monotonic
        self._endpoint = mask(endpoint)
        self._complained_at: float | None = None
        self._lost = 0

    def send(self, spans: Sequence[EndedSpan]) -> None:
        """Raises nothing."""
        try:
            succeeded = self._inner.export(spans)
        except Exception as error:  # noqa: BLE001 - nothing that a collector does may reach the service
            self.on_lost(len(spans), str(error))
            return
        if not succeeded:
            self.on_lost(len(spans), "it does not answer, or refused them")

    def on_lost(self, count: int, reason: str) -> None:
        """So many spans are lost."""
        self._lost += count
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

    def close(self) -> None:
        """Nothing more will be sent, nor what is being sent tried again. May be called twice."""
        self._inner.shutdown()
