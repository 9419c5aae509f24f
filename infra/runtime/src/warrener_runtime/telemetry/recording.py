"""Where spans are really made. Imported only where somebody looks at them."""

import os
import socket
import time
from collections.abc import Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, TraceFlags, TraceState
from uuid_utils.compat import uuid7

from warrener_runtime.clock import Clock
from warrener_runtime.telemetry import names
from warrener_runtime.telemetry.context import TraceContext
from warrener_runtime.telemetry.span import Attributes, Kind, NoSpan, RecordedSpan, Span

_KINDS: dict[Kind, SpanKind] = {
    "internal": SpanKind.INTERNAL,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
    "client": SpanKind.CLIENT,
    "server": SpanKind.SERVER,
}
_ROOT = Context()  # explicit: a span never takes its parent from what happens to be around


class Recorder:
    """The SDK's provider and tracer of one service."""

    def __init__(
        self,
        service_name: str,
        processor: SpanProcessor,
        *,
        kept: InMemorySpanExporter | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.kept = kept
        self._now_ns = partial(_nanoseconds, clock) if clock else time.time_ns
        # The sampler is the SDK's own choice, so that OTEL_TRACES_SAMPLER works as everywhere.
        self._provider = TracerProvider(resource=_resource(service_name), shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._processor = processor
        self._tracer = self._provider.get_tracer("warrener", _version())

    def span(
        self,
        name: str,
        *,
        kind: Kind,
        parent: TraceContext | None,
        links: Sequence[TraceContext],
        attributes: Attributes | None,
        start_ns: int | None,
    ) -> Span:
        """Begin a span."""
        span = self._tracer.start_span(
            name,
            context=_context(parent),
            kind=_KINDS[kind],
            attributes=attributes,
            links=[Link(found) for link in links if (found := _span_context(link))],
            start_time=self._now_ns() if start_ns is None else start_ns,
            record_exception=False,
        )
        context = _written(span.get_span_context())
        if not span.is_recording():
            return NoSpan(context)
        return RecordedSpan(span, context, self._now_ns)

    def shutdown(self) -> None:
        """Send what is left and end the threads. Blocks."""
        self._provider.shutdown()


def keeping(service_name: str, clock: Clock | None) -> Recorder:
    """Spans stay in memory."""
    kept = InMemorySpanExporter()
    return Recorder(service_name, SimpleSpanProcessor(kept), kept=kept, clock=clock)


def _nanoseconds(clock: Clock) -> int:
    return int(clock.now().timestamp() * 1e9)


def _resource(service_name: str) -> Resource:
    return Resource.create(
        {
            names.SERVICE_NAME: service_name,
            names.SERVICE_VERSION: _version(),
            names.SERVICE_INSTANCE_ID: str(uuid7()),
            "host.name": socket.gethostname(),
            "process.pid": os.getpid(),
        }
    )


def _version() -> str:
    try:
        return version("warrener-runtime")
    except PackageNotFoundError:  # run from the sources
        return "0"


def _context(parent: TraceContext | None) -> Context:
    found = _span_context(parent) if parent else None
    return trace.set_span_in_context(NonRecordingSpan(found), _ROOT) if found else _ROOT


def _span_context(context: TraceContext) -> SpanContext | None:
    trace_id, span_id = context.trace_id, context.span_id
    if trace_id is None or span_id is None:
        return None
    return SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED if context.sampled else TraceFlags.DEFAULT),
        trace_state=TraceState.from_header([context.tracestate]) if context.tracestate else None,
    )


def _written(context: SpanContext) -> TraceContext:
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"
    return TraceContext(parent, context.trace_state.to_header() or None)
