"""One service's traces: made, sampled and sent, or not made at all."""

import asyncio
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from warrener_runtime.clock import Clock
from warrener_runtime.telemetry.spans import (
    NO_CONTEXT,
    Attributes,
    Kind,
    NoSpan,
    Span,
    TraceContext,
    propagates_trace_context,
)

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from warrener_runtime.settings import ServiceSettings
    from warrener_runtime.telemetry.recorder import SpanRecorder

_SHUTDOWN_SECONDS = 5.0


class Telemetry:
    """Makes the spans of one service. Never disturbs it: spans that cannot be sent are dropped.

    Each service has its own `service.name`, also where several live in one process: nothing here is global.
    """

    def __init__(self, recorder: "SpanRecorder | None" = None) -> None:
        self._recorder = recorder
        self._propagates = propagates_trace_context()

    @classmethod
    def from_settings(cls, service_name: str, settings: "ServiceSettings") -> Self:
        """Send spans to the collector of the settings, or of OpenTelemetry's variables; make none without
        one."""
        # The SDK is loaded only if it is used.
        from warrener_runtime.telemetry.endpoint import log_missing_exporter, otlp_endpoint  # noqa: PLC0415

        protocol = settings.otlp_protocol if "otlp_protocol" in settings.model_fields_set else None
        endpoint = otlp_endpoint(settings.otlp_endpoint, protocol, os.environ)
        if endpoint is None:
            return cls.disabled()
        try:
            from warrener_runtime.telemetry.export import make_exporting_recorder  # noqa: PLC0415
        except ModuleNotFoundError as missing:
            if not (missing.name or "").startswith("opentelemetry"):
                raise
            log_missing_exporter(endpoint, missing)
            return cls.disabled()
        return cls(make_exporting_recorder(service_name, endpoint))

    @classmethod
    def disabled(cls) -> Self:
        """Make no spans, and pass on the contexts of others."""
        return cls()

    @classmethod
    def in_memory(cls, service_name: str, *, clock: Clock | None = None) -> Self:
        """Keep spans for `spans()`. With a clock, they carry its times."""
        from warrener_runtime.telemetry.recorder import make_in_memory_recorder  # noqa: PLC0415 - see above

        return cls(make_in_memory_recorder(service_name, clock))

    def span(
        self,
        name: str,
        *,
        kind: Kind = "internal",
        parent: TraceContext | None = None,
        links: Sequence[TraceContext] = (),
        attributes: Attributes | None = None,
        start_ns: int | None = None,
    ) -> Span:
        """Begin a span under `parent`, or a new trace if there is none. It ends when its `with` block is
        left.

        Under a parent that is not sampled the default sampler records nothing, and the parent is passed on.
        """
        if self._recorder is None or not self.records(parent):
            return NoSpan(parent if parent is not None and self._propagates else NO_CONTEXT)
        return self._recorder.span(
            name, kind=kind, parent=parent, links=links, attributes=attributes, start_ns=start_ns
        )

    def record_instant(
        self, name: str, *, kind: Kind = "internal", parent: TraceContext | None, attributes: Attributes
    ) -> TraceContext:
        """Record a span without length, for one of many decisions of a step; return its context."""
        span = self.span(name, kind=kind, parent=parent, attributes=attributes)
        span.finish()
        return span.context

    def records(self, parent: TraceContext | None) -> bool:
        """True unless a span under `parent` is certainly not recorded; check before making thousands."""
        recorder = self._recorder
        return recorder is not None and not (
            recorder.skips_unsampled and parent is not None and parent.sampled is False
        )

    def spans(self) -> "tuple[ReadableSpan, ...]":
        """The spans that have ended; of `in_memory` alone."""
        if self._recorder is None or not self._recorder.is_in_memory:
            raise TypeError("expected Telemetry.in_memory(), got one that keeps no spans")
        return self._recorder.spans()

    async def shutdown(self, timeout: float = _SHUTDOWN_SECONDS) -> None:
        """Send what is left, for at most `timeout` seconds; drop the rest. May be called twice."""
        if self._recorder is None:
            return
        recorder, self._recorder = self._recorder, None
        if recorder.is_in_memory:
            self._recorder = recorder  # stored spans stay readable
            return
        # A thread of its own that nobody joins: a collector that does not answer must not hold the process.
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def flush() -> None:
            recorder.shutdown()
            _signal_done(loop, done)

        threading.Thread(target=flush, name="telemetry-shutdown", daemon=True).start()
        try:
            async with asyncio.timeout(timeout):
                await done.wait()
        except TimeoutError:
            threading.Thread(target=recorder.give_up, name="telemetry-end", daemon=True).start()


def _signal_done(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(done.set)
    except RuntimeError:  # the loop is closed and nobody waits
        return
