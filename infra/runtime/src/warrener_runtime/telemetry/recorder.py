"""Makes the spans of one service. Imported only if tracing is on.

OpenTelemetry's variables set sampling, limits, the resource and whether there is tracing at all; the SDK
reads them. Where they set nothing special, and every job is traced, a span is an object of our own.
"""

import os
import socket
import threading
import time
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Protocol

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, Tracer, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, DEFAULT_ON, ParentBased, Sampler
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext
from uuid_utils.compat import uuid7

from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import names
from warrener_runtime.telemetry.live_span import (
    SPAN_KINDS,
    EndedSpan,
    FinishedSpan,
    LiveSpan,
    SpanOrigin,
    SpanStart,
    to_readable_span,
)
from warrener_runtime.telemetry.metric_outlets import service_version
from warrener_runtime.telemetry.spans import (
    RANDOM,
    SAMPLED,
    Attributes,
    LinkTo,
    NoSpan,
    Span,
    SpanRef,
    SpanShape,
    TraceContext,
    from_span_context,
    normalized_tracestate,
    propagates_trace_context,
    to_span_context,
)

_ROOT = Context()  # explicit: a span never takes its parent from the context around it
_MAX_OWN_ATTRIBUTES = 16  # no span of ours has more
_USER_PROVIDER_CHECK_INTERVAL = 1_000_000_000  # nanoseconds

log = get_logger("telemetry")


class SpanSink(Protocol):
    """Takes spans that have ended."""

    def put(self, span: EndedSpan) -> None:
        """Take one more."""
        ...

    def close(self) -> None:
        """Pass on what is left. Blocks."""
        ...

    def give_up(self) -> None:
        """Pass on nothing more."""
        ...


class InMemorySink(list[EndedSpan]):
    """Keeps spans in memory."""

    def put(self, span: EndedSpan) -> None:
        self.append(span)

    def close(self) -> None: ...

    def give_up(self) -> None: ...


class SpanRecorder:
    """Makes spans, of our own where that is enough and of the SDK's where it is not, and hands them to a
    sink.

    A tracer provider that the user has set globally makes all spans, so that its span processors see them
    from start to end; its sampler and its limits then count. It may be set at any time and is found within a
    second.
    """

    def __init__(self, origin: SpanOrigin, sink: SpanSink, *, clock: Clock | None = None) -> None:
        self.now_ns = partial(_nanoseconds, clock) if clock else time.time_ns
        self.origin = origin
        self.propagates = propagates_trace_context()
        self._sink = sink
        # A source of its own: a user who seeds Python's would get the same identifiers again.
        self._random = Random()  # noqa: S311 - identifiers, no secrets
        self._ids = _PresetIdGenerator()
        provider = self._make_own_tracer()
        self._uses_own_spans = (
            isinstance(self._own_tracer, Tracer)  # not if the SDK is disabled
            and provider.sampler in (DEFAULT_ON, ALWAYS_ON)
            and _is_unlimited(SpanLimits())
        )
        self.skips_unsampled = self.propagates and _skips_unsampled(provider.sampler)
        self._next_check_ns = 0
        self.put = sink.put
        if not self.propagates:
            log.warning(
                "Traces end here: OTEL_PROPAGATORS does not name tracecontext, the format of our messages.",
                action="telemetry.not_propagated",
                propagators=os.environ.get("OTEL_PROPAGATORS"),
            )

    @property
    def is_in_memory(self) -> bool:
        """True if `spans` can be called."""
        return isinstance(self._sink, InMemorySink)

    def spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that have ended."""
        stored = self._sink if isinstance(self._sink, InMemorySink) else ()
        return tuple(to_readable_span(span, self.origin) for span in stored)

    def record(
        self, ended: Sequence[tuple[SpanShape, int, int]], parent: TraceContext | None, attributes: Attributes
    ) -> SpanStart | None:
        """Record spans that are over, from their starts and ends, all with these attributes, which nobody
        may change afterwards. Return the last one; None if only `span` can make them."""
        self._look_now_and_again(ended[-1][1])
        if not self._uses_own_spans:
            return None
        begun = None
        for shape, start_ns, end_ns in ended:
            if begun is None:
                begun = self._begun(shape, parent if self.propagates else None, start_ns, None)
            else:
                begun = self._beside(begun, shape, start_ns)
            self.put(FinishedSpan(begun, end_ns, attributes, None))
        return begun

    def span(
        self,
        shape: SpanShape,
        *,
        parent: TraceContext | None,
        links: Sequence[LinkTo],
        attributes: Attributes | None,
        start_ns: int | None,
        span_id: str | None = None,
    ) -> Span:
        """Begin a span; with this identifier if one is given, unless a provider of the user makes it."""
        begun_ns = self.now_ns() if start_ns is None else start_ns
        self._look_now_and_again(begun_ns)
        if not self.propagates:
            parent = None
        if self._uses_own_spans and not links:
            return LiveSpan(self, self._begun(shape, parent, begun_ns, span_id), attributes)
        if span_id is not None:
            self._ids.preset(SpanRef(f"{self._random.getrandbits(128) or 1:032x}", span_id, SAMPLED))
        span = self._tracer.start_span(
            shape.name,
            context=_context(parent),
            kind=SPAN_KINDS[shape.kind],
            attributes={**shape.attributes, **(attributes or {})},
            links=[
                Link(found, {names.LINK: link.what})
                for link in links
                if (found := _span_context(link.context))
            ],
            start_time=begun_ns,
            record_exception=False,
        )
        self._ids.reset()
        context = from_span_context(span.get_span_context())
        ref = context.read()
        if ref is None or not span.is_recording():
            return NoSpan(context, is_remote=False)
        parent_id = parent.span_id if parent else None
        begun = SpanStart(ref, parent_id or "", context.tracestate, shape, begun_ns)
        return LiveSpan(self, begun, attributes, span)

    def start_sdk_span(self, begun: SpanStart, attributes: Attributes) -> trace.Span:
        """Make the SDK's span for one that we began ourselves."""
        trace_id, _, flags = begun.ref
        self._ids.preset(begun.ref)
        parent = TraceContext(f"00-{trace_id}-{begun.parent_id}-{flags:02x}", begun.tracestate)
        return self._own_tracer.start_span(
            begun.shape.name,
            context=_context(parent),
            kind=SPAN_KINDS[begun.shape.kind],
            attributes={**begun.shape.attributes, **attributes},
            start_time=begun.start_ns,
            record_exception=False,
        )

    def identify(self, instance_id: str) -> None:
        """Set `service.instance.id`, unless OTEL_RESOURCE_ATTRIBUTES names one. Call it before the first
        span."""
        if names.SERVICE_INSTANCE_ID in OTELResourceDetector().detect().attributes:
            return
        named = self.origin.resource.merge(Resource({names.SERVICE_INSTANCE_ID: instance_id}))
        self.origin.resource = named
        self._make_own_tracer()

    def shutdown(self) -> None:
        """Send what is left and end the threads. Blocks."""
        self._sink.close()

    def give_up(self) -> None:
        """Send nothing more. May block."""
        self._sink.give_up()

    def _make_own_tracer(self) -> TracerProvider:
        origin = self.origin
        provider = TracerProvider(resource=origin.resource, shutdown_on_exit=False, id_generator=self._ids)
        self._own_tracer = self._tracer = provider.get_tracer(origin.scope.name, origin.scope.version)
        return provider

    def _look_now_and_again(self, now_ns: int) -> None:
        """Look for a user's provider, unless that was done within a second before this moment."""
        if now_ns >= self._next_check_ns:
            self._next_check_ns = now_ns + _USER_PROVIDER_CHECK_INTERVAL
            self._look_for_user_provider()

    def _look_for_user_provider(self) -> None:
        provider = trace.get_tracer_provider()
        if isinstance(provider, TracerProvider):
            self._tracer = provider.get_tracer(self.origin.scope.name, self.origin.scope.version)
            self._uses_own_spans = False
            self.skips_unsampled = self.propagates and _skips_unsampled(provider.sampler)

    def _begun(
        self, shape: SpanShape, parent: TraceContext | None, start_ns: int, span_id: str | None
    ) -> SpanStart:
        bits = self._random.getrandbits
        span_id = span_id or f"{bits(64) or 1:016x}"
        parent_ref = parent.read() if parent else None
        if parent is None or parent_ref is None:
            ref = SpanRef(f"{bits(128) or 1:032x}", span_id, SAMPLED | RANDOM)
            return SpanStart(ref, "", None, shape, start_ns)
        ref = SpanRef(parent_ref.trace_id, span_id, SAMPLED | parent_ref.flags & RANDOM)
        tracestate = normalized_tracestate(parent.tracestate) if parent.tracestate else None
        return SpanStart(ref, parent_ref.span_id, tracestate, shape, start_ns)

    def _beside(self, other: SpanStart, shape: SpanShape, start_ns: int) -> SpanStart:
        """Begin a span below the parent of another."""
        (trace_id, _, flags), parent_id, tracestate, _, _ = other
        ref = SpanRef(trace_id, f"{self._random.getrandbits(64) or 1:016x}", flags)
        return SpanStart(ref, parent_id, tracestate, shape, start_ns)


class _PresetIdGenerator(RandomIdGenerator):
    """Random identifiers, or those of the light span that the SDK's next one stands for."""

    def __init__(self) -> None:
        self._thread = threading.local()  # handlers add to their span in threads too

    def preset(self, ref: SpanRef) -> None:
        """Give these to the next span of this thread."""
        self._thread.ref = ref

    def reset(self) -> None:
        """Give none to the next span: the one before was not of the SDK, or a sampler dropped it."""
        self._thread.ref = None

    def generate_trace_id(self) -> int:
        preset_ref: SpanRef | None = getattr(self._thread, "ref", None)
        return int(preset_ref.trace_id, 16) if preset_ref else super().generate_trace_id()

    def generate_span_id(self) -> int:
        preset_ref: SpanRef | None = getattr(self._thread, "ref", None)
        self._thread.ref = None
        return int(preset_ref.span_id, 16) if preset_ref else super().generate_span_id()


def make_in_memory_recorder(service_name: str, clock: Clock | None) -> SpanRecorder:
    """Make a recorder whose spans stay in memory."""
    return SpanRecorder(origin_of(service_name), InMemorySink(), clock=clock)


def origin_of(service_name: str) -> SpanOrigin:
    """Describe a service; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win over our own description."""
    ours = Resource.create(
        {
            names.SERVICE_NAME: service_name,
            names.SERVICE_VERSION: service_version(),
            names.SERVICE_INSTANCE_ID: str(uuid7()),
            names.HOST_NAME: socket.gethostname(),
            names.PROCESS_ID: os.getpid(),
        }
    )
    return SpanOrigin(
        ours.merge(OTELResourceDetector().detect()), InstrumentationScope("warrener", service_version())
    )


def _skips_unsampled(sampler: Sampler) -> bool:
    """True if the sampler certainly drops a span under a remote parent that is not sampled, as the default
    does."""
    description: str = sampler.get_description()
    return isinstance(sampler, ParentBased) and "remoteParentNotSampled:AlwaysOffSampler" in description


def _is_unlimited(limits: SpanLimits) -> bool:
    """True if no span of ours can exceed the limits."""
    max_attributes = limits.max_span_attributes
    return limits.max_span_attribute_length is None and (
        max_attributes is None or max_attributes >= _MAX_OWN_ATTRIBUTES
    )


def _nanoseconds(clock: Clock) -> int:
    return int(clock.now().timestamp() * 1e9)


def _context(parent: TraceContext | None) -> Context:
    found = _span_context(parent) if parent else None
    return trace.set_span_in_context(NonRecordingSpan(found), _ROOT) if found else _ROOT


def _span_context(context: TraceContext) -> SpanContext | None:
    ref = context.read()
    return to_span_context(ref, context.tracestate, is_remote=True) if ref else None
