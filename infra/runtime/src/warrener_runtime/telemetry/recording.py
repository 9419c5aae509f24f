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
from warrener_runtime.telemetry.context import RANDOM, SAMPLED, Place, TraceContext
from warrener_runtime.telemetry.finished import Begun, Ended, Origin, readable
from warrener_runtime.telemetry.live import LiveSpan
from warrener_runtime.telemetry.span import Attributes, Kind, NoSpan, Span

_KINDS: dict[Kind, SpanKind] = {
    "internal": SpanKind.INTERNAL,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
    "client": SpanKind.CLIENT,
    "server": SpanKind.SERVER,
}
_ROOT = Context()  # explicit: a span never takes its parent from what happens to be around
_MOST_OF_OURS = 16  # attributes that a span of ours never has


class Sink(Protocol):
    """Takes spans that have ended."""

    def put(self, span: Ended) -> None:
        """One more."""
        ...

    def close(self) -> None:
        """There will be no more; hand on what there is. Blocks."""
        ...

    def give_up(self) -> None:
        """Hand on nothing more."""
        ...


class Kept(list[Ended]):
    """Spans stay in memory."""

    def put(self, span: Ended) -> None:
        self.append(span)

    def close(self) -> None: ...

    def give_up(self) -> None: ...


class Recorder:
    """Makes the spans of one service, and says which are made.

    Sampling, limits and whether there is tracing at all are set by OpenTelemetry's own variables, and the SDK
    reads them. Where they say nothing, which is where every job is traced, a span is an object of our own;
    where they say something, and where a handler says something of it, the SDK makes it.
    """

    def __init__(self, origin: Origin, sink: Sink, *, clock: Clock | None = None) -> None:
        self.now_ns = partial(_nanoseconds, clock) if clock else time.time_ns
        self.origin = origin
        self._sink = sink
        # Of our own: who seeds Python's would have the same traces again.
        self._random = Random()  # noqa: S311 - identifiers, no secrets
        self._ids = _GivenId()
        provider = TracerProvider(resource=origin.resource, shutdown_on_exit=False, id_generator=self._ids)
        provider.add_span_processor(_Into(sink))
        self._tracer = provider.get_tracer(origin.scope.name, origin.scope.version)
        self._plain = (
            isinstance(self._tracer, Tracer)  # else the SDK is switched off
            and provider.sampler in (DEFAULT_ON, ALWAYS_ON)
            and _unlimited(SpanLimits())
        )
        self.put = sink.put

    @property
    def keeps(self) -> bool:
        """Whether `spans` can be asked for."""
        return isinstance(self._sink, Kept)

    def spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that ended so far."""
        kept = self._sink if isinstance(self._sink, Kept) else ()
        return tuple(readable(span, self.origin) for span in kept)

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
        if self._plain and not links:
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
        place = context.read()
        assert place is not None, context
        above = parent.span_id if parent else None
        begun = Begun(place, above or "", context.tracestate, name, _KINDS[kind], begun_ns)
        return LiveSpan(self, begun, None, span)

    def rich(self, begun: Begun) -> trace.Span:
        """The SDK's span for one that we began ourselves."""
        trace_id, _, flags = begun.place
        self._ids.give(begun.place)
        above = TraceContext(f"00-{trace_id}-{begun.parent_id}-{flags:02x}", begun.tracestate)
        return self._tracer.start_span(
            begun.name,
            context=_context(above),
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

    def _begun(self, name: str, kind: SpanKind, parent: TraceContext | None, start_ns: int) -> Begun:
        bits = self._random.getrandbits
        above = parent.read() if parent else None
        if parent is None or above is None:
            place = Place(f"{bits(128) or 1:032x}", f"{bits(64) or 1:016x}", SAMPLED | RANDOM)
            return Begun(place, "", None, name, kind, start_ns)
        place = Place(above.trace_id, f"{bits(64) or 1:016x}", SAMPLED | above.flags & RANDOM)
        tracestate = _as_sent(parent.tracestate) if parent.tracestate else None
        return Begun(place, above.span_id, tracestate, name, kind, start_ns)


class _GivenId(RandomIdGenerator):
    """The SDK's identifiers; where it makes a span for one that has them already, those."""

    def __init__(self) -> None:
        self._here = threading.local()  # a handler may speak of its span in a thread

    def give(self, place: Place) -> None:
        """The next span of this thread has these."""
        self._here.place = place

    def generate_trace_id(self) -> int:
        given: Place | None = getattr(self._here, "place", None)
        return int(given.trace_id, 16) if given else super().generate_trace_id()

    def generate_span_id(self) -> int:
        given: Place | None = getattr(self._here, "place", None)
        self._here.place = None
        return int(given.span_id, 16) if given else super().generate_span_id()


class _Into(SpanProcessor):
    """Hands the SDK's spans to where ours go."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def on_end(self, span: ReadableSpan) -> None:
        self._sink.put(span)


def keeping(service_name: str, clock: Clock | None) -> Recorder:
    """Spans stay in memory."""
    return Recorder(origin_of(service_name), Kept(), clock=clock)


def origin_of(service_name: str) -> Origin:
    """What is said of the service with its spans."""
    return Origin(_resource(service_name), InstrumentationScope("warrener", _version()))


def _unlimited(limits: SpanLimits) -> bool:
    """Whether a span of ours is within them, whatever it says."""
    most = limits.max_span_attributes
    return limits.max_span_attribute_length is None and (most is None or most >= _MOST_OF_OURS)


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
    place = context.read()
    if place is None:
        return None
    return SpanContext(
        int(place.trace_id, 16),
        int(place.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(place.flags & (SAMPLED | RANDOM)),
        trace_state=TraceState.from_header([context.tracestate]) if context.tracestate else None,
    )


@lru_cache(maxsize=1024)
def _as_sent(tracestate: str) -> str | None:
    """What is malformed is left out."""
    return TraceState.from_header([tracestate]).to_header() or None


def _written(context: SpanContext) -> TraceContext:
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"
    return TraceContext(parent, context.trace_state.to_header() or None)
