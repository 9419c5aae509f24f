"""Where spans are really made. Imported only where somebody looks at them."""

import os
import socket
import threading
import time
from collections.abc import Sequence
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, version
from random import Random
from typing import Protocol

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, Tracer, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, DEFAULT_ON
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, TraceFlags, TraceState
from uuid_utils.compat import uuid7

from warrener_runtime.clock import Clock
from warrener_runtime.telemetry import names
from warrener_runtime.telemetry.context import RANDOM, SAMPLED, SpanRef, TraceContext
from warrener_runtime.telemetry.finished_span import EndedSpan, SpanOrigin, SpanStart, to_readable_span
from warrener_runtime.telemetry.live_span import LiveSpan
from warrener_runtime.telemetry.span import Attributes, Kind, NoSpan, Span

_KINDS: dict[Kind, SpanKind] = {
    "internal": SpanKind.INTERNAL,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
    "client": SpanKind.CLIENT,
    "server": SpanKind.SERVER,
}
_ROOT = Context()  # explicit: a span never takes its parent from what happens to be around
_MAX_OWN_ATTRIBUTES = 16  # attributes that a span of ours never has


class SpanSink(Protocol):
    """Takes spans that have ended."""

    def put(self, span: EndedSpan) -> None:
        """One more."""
        ...

    def close(self) -> None:
        """There will be no more; hand on what there is. Blocks."""
        ...

    def give_up(self) -> None:
        """Hand on nothing more."""
        ...


class InMemorySink(list[EndedSpan]):
    """Spans stay in memory."""

    def put(self, span: EndedSpan) -> None:
        self.append(span)

    def close(self) -> None: ...

    def give_up(self) -> None: ...


class SpanRecorder:
    """Makes the spans of one service, and says which are made.

    Sampling, limits and whether there is tracing at all are set by OpenTelemetry's own variables, and the SDK
    reads them. Where they say nothing, which is where every job is traced, a span is an object of our own;
    where they say something, and where a handler says something of it, the SDK makes it.
    """

    def __init__(self, origin: SpanOrigin, sink: SpanSink, *, clock: Clock | None = None) -> None:
        self.now_ns = partial(_nanoseconds, clock) if clock else time.time_ns
        self.origin = origin
        self._sink = sink
        # Of our own: who seeds Python's would have the same traces again.
        self._random = Random()  # noqa: S311 - identifiers, no secrets
        self._ids = _PresetIdGenerator()
        provider = TracerProvider(resource=origin.resource, shutdown_on_exit=False, id_generator=self._ids)
        provider.add_span_processor(_SinkSpanProcessor(sink))
        self._tracer = provider.get_tracer(origin.scope.name, origin.scope.version)
        self._uses_own_spans = (
            isinstance(self._tracer, Tracer)  # else the SDK is switched off
            and provider.sampler in (DEFAULT_ON, ALWAYS_ON)
            and _unlimited(SpanLimits())
        )
        self.put = sink.put

    @property
    def is_in_memory(self) -> bool:
        """Whether `spans` can be asked for."""
        return isinstance(self._sink, InMemorySink)

    def spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that ended so far."""
        stored = self._sink if isinstance(self._sink, InMemorySink) else ()
        return tuple(to_readable_span(span, self.origin) for span in stored)

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
        begun_ns = self.now_ns() if start_ns is None else start_ns
        if self._uses_own_spans and not links:
            return LiveSpan(self, self._begun(name, _KINDS[kind], parent, begun_ns), attributes)
        span = self._tracer.start_span(
            name,
            context=_context(parent),
            kind=_KINDS[kind],
            attributes=attributes,
            links=[Link(found) for link in links if (found := _span_context(link))],
            start_time=begun_ns,
            record_exception=False,
        )
        context = _written(span.get_span_context())
        if not span.is_recording():
            return NoSpan(context)
        ref = context.read()
        assert ref is not None, context
        parent_ref = parent.span_id if parent else None
        begun = SpanStart(ref, parent_ref or "", context.tracestate, name, _KINDS[kind], begun_ns)
        return LiveSpan(self, begun, None, span)

    def start_sdk_span(self, begun: SpanStart) -> trace.Span:
        """The SDK's span for one that we began ourselves."""
        trace_id, _, flags = begun.ref
        self._ids.preset(begun.ref)
        parent_ref = TraceContext(f"00-{trace_id}-{begun.parent_id}-{flags:02x}", begun.tracestate)
        return self._tracer.start_span(
            begun.name,
            context=_context(parent_ref),
            kind=begun.kind,
            start_time=begun.start_ns,
            record_exception=False,
        )

    def shutdown(self) -> None:
        """Send what is left and end the threads. Blocks."""
        self._sink.close()

    def give_up(self) -> None:
        """Send no more, whatever is left. May block."""
        self._sink.give_up()

    def _begun(self, name: str, kind: SpanKind, parent: TraceContext | None, start_ns: int) -> SpanStart:
        bits = self._random.getrandbits
        parent_ref = parent.read() if parent else None
        if parent is None or parent_ref is None:
            ref = SpanRef(f"{bits(128) or 1:032x}", f"{bits(64) or 1:016x}", SAMPLED | RANDOM)
            return SpanStart(ref, "", None, name, kind, start_ns)
        ref = SpanRef(parent_ref.trace_id, f"{bits(64) or 1:016x}", SAMPLED | parent_ref.flags & RANDOM)
        tracestate = _as_sent(parent.tracestate) if parent.tracestate else None
        return SpanStart(ref, parent_ref.span_id, tracestate, name, kind, start_ns)


class _PresetIdGenerator(RandomIdGenerator):
    """The SDK's identifiers; where it makes a span for one that has them already, those."""

    def __init__(self) -> None:
        self._thread = threading.local()  # a handler may speak of its span in a thread

    def preset(self, ref: SpanRef) -> None:
        """The next span of this thread has these."""
        self._thread.ref = ref

    def generate_trace_id(self) -> int:
        preset_ref: SpanRef | None = getattr(self._thread, "ref", None)
        return int(preset_ref.trace_id, 16) if preset_ref else super().generate_trace_id()

    def generate_span_id(self) -> int:
        preset_ref: SpanRef | None = getattr(self._thread, "ref", None)
        self._thread.ref = None
        return int(preset_ref.span_id, 16) if preset_ref else super().generate_span_id()


class _SinkSpanProcessor(SpanProcessor):
    """Hands the SDK's spans to where ours go."""

    def __init__(self, sink: SpanSink) -> None:
        self._sink = sink

    def on_end(self, span: ReadableSpan) -> None:
        self._sink.put(span)


def make_in_memory_recorder(service_name: str, clock: Clock | None) -> SpanRecorder:
    """Spans stay in memory."""
    return SpanRecorder(origin_of(service_name), InMemorySink(), clock=clock)


def origin_of(service_name: str) -> SpanOrigin:
    """What is said of the service with its spans."""
    return SpanOrigin(_resource(service_name), InstrumentationScope("warrener", _version()))


def _unlimited(limits: SpanLimits) -> bool:
    """Whether a span of ours is within them, whatever it says."""
    max_attributes = limits.max_span_attributes
    return limits.max_span_attribute_length is None and (
        max_attributes is None or max_attributes >= _MAX_OWN_ATTRIBUTES
    )


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
    ref = context.read()
    if ref is None:
        return None
    return SpanContext(
        int(ref.trace_id, 16),
        int(ref.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(ref.flags & (SAMPLED | RANDOM)),
        trace_state=TraceState.from_header([context.tracestate]) if context.tracestate else None,
    )


@lru_cache(maxsize=1024)
def _as_sent(tracestate: str) -> str | None:
    """What is malformed is left out."""
    return TraceState.from_header([tracestate]).to_header() or None


def _written(context: SpanContext) -> TraceContext:
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"
    return TraceContext(parent, context.trace_state.to_header() or None)
