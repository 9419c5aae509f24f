"""Spans on their way to a collector: in the background, in batches, and never at the service's cost."""

import logging
import time
from collections.abc import Callable, Sequence

from warrener_runtime.logs import get_logger
from warrener_runtime.settings.secrets import mask
from warrener_runtime.telemetry.finished import Ended
from warrener_runtime.telemetry.recording import Recorder, origin_of
from warrener_runtime.telemetry.shipping import Pace, Shipping
from warrener_runtime.telemetry.transports import Exporter, Transport, otlp_exporter

_COMPLAIN_EVERY_SECONDS = 60.0
_CHATTY = ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal", "opentelemetry.sdk.trace.export")

log = get_logger("telemetry")


def exporting(service_name: str, endpoint: str, transport: Transport) -> Recorder:
    """A recorder whose spans are sent to `endpoint`."""
    for name in _CHATTY:  # they log each failure with a traceback; ours says it once a minute
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    origin = origin_of(service_name)
    forbearing = Forbearing(otlp_exporter(origin, endpoint, transport), endpoint)
    return Recorder(origin, Shipping(forbearing, Pace.set_up()))


class Forbearing:
    """Passes spans on. A failure costs these spans, and one line in the log a minute at most."""

    def __init__(
        self, inner: Exporter, endpoint: str, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._inner = inner
        self._monotonic = monotonic
        self._endpoint = mask(endpoint)
        self._complained_at: float | None = None
        self._lost = 0

    def send(self, spans: Sequence[Ended]) -> None:
        """Raises nothing."""
        try:
            arrived = self._inner.export(spans)
        except Exception as error:  # noqa: BLE001 - nothing that a collector does may reach the service
            self.lost(len(spans), str(error))
            return
        if not arrived:
            self.lost(len(spans), "it does not answer, or refused them")

    def lost(self, count: int, reason: str) -> None:
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
