"""One service's traces: made, sampled and sent, or not made at all."""

import asyncio
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from warrener_runtime.clock import Clock
from warrener_runtime.settings import ServiceSettings
from warrener_runtime.telemetry.context import NO_CONTEXT, TraceContext
from warrener_runtime.telemetry.span import Attributes, Kind, NoSpan, Span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from warrener_runtime.telemetry.recorder import SpanRecorder

_SHUTDOWN_SECONDS = 5.0


class Telemetry:
    """Makes the spans of one service. Never disturbs it: what cannot be sent is dropped.

    Each service has its own `service.name`, also where several live in one process: nothing here is global.
    """

    def __init__(self, recorder: "SpanRecorder | None" = None) -> None:
        self._recorder = recorder

    @classmethod
    def from_settings(cls, service_name: str, settings: ServiceSettings) -> Self:
        """Spans go to `otlp_endpoint` in the background; without one, none are made."""
        if settings.otlp_endpoint is None:
            return cls.disabled()
        from warrener_runtime.telemetry.export import make_exporting_recorder  # noqa: PLC0415 - the SDK is loaded if it is used

        return cls(make_exporting_recorder(service_name, settings.otlp_endpoint, settings.otlp_protocol))

    @classmethod
    def disabled(cls) -> Self:
        """No spans; contexts that come in are handed on."""
        return cls()

    @classmethod
    def in_memory(cls, service_name: str, *, clock: Clock | None = None) -> Self:
        """Spans are kept for `spans()`. With a clock, they carry its times."""
        from warrener_runtime.telemetry.recorder import make_in_memory_recorder  # noqa: PLC0415 - the SDK is loaded if it is used

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
        """Begin a span under `parent`, or a new trace if there is none. End it by leaving its `with` block.

        A parent that is not sampled is handed on: nobody recorded its beginning.
        """
        if self._recorder is None or not self.records(parent):
            return NoSpan(parent or NO_CONTEXT)
        return self._recorder.span(
            name, kind=kind, parent=parent, links=links, attributes=attributes, start_ns=start_ns
        )

    def record_instant(
        self, name: str, *, kind: Kind = "internal", parent: TraceContext | None, attributes: Attributes
    ) -> TraceContext:
        """A span that begins and ends now; its context. For what is decided among many in one step."""
        span = self.span(name, kind=kind, parent=parent, attributes=attributes)
        span.finish()
        return span.context

    def records(self, parent: TraceContext | None) -> bool:
        """Whether a span under `parent` would be kept. If not, who makes thousands need not even begin."""
        return self._recorder is not None and not (parent and parent.sampled is False)

    def spans(self) -> "tuple[ReadableSpan, ...]":
        """The spans that ended so far; of `in_memory` alone."""
        if self._recorder is None or not self._recorder.is_in_memory:
            raise TypeError("expected Telemetry.in_memory(), got one that keeps no spans")
        return self._recorder.spans()

    async def shutdown(self, timeout: float = _SHUTDOWN_SECONDS) -> None:
        """Send what is left, for at most `timeout` seconds; then let go. May be called twice."""
        if self._recorder is None:
            return
        recorder, self._recorder = self._recorder, None
        if recorder.is_in_memory:
            self._recorder = recorder  # what is kept can still be read
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
    except RuntimeError:  # the loop was closed: nobody waits any more
        return
