"""Makes the spans of one service. Imported only if tracing is on.

Where OpenTelemetry's variables set nothing special, and every job is traced, a span is an object of our own.
"""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from random import Random

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import names
from warrener_runtime.telemetry.live_span import EndedSpan, FinishedSpan, LiveSpan
from warrener_runtime.telemetry.resource import service_version
from warrener_runtime.telemetry.sdk_spans import SdkSpans, SpanOrigin
from warrener_runtime.telemetry.spans import (
    RANDOM,
    SAMPLED,
    Attributes,
    LinkTo,
    Span,
    SpanRef,
    SpanShape,
    SpanStart,
    TraceContext,
    from_span_context,
    normalized_tracestate,
)

log = get_logger("telemetry")


class SpanRecorder:
    """Makes spans, of our own where that is enough and of the SDK's where it is not, and calls `put` with
    each that has ended."""

    def __init__(
        self, origin: SpanOrigin, put: Callable[[EndedSpan], None], *, clock: Clock | None = None
    ) -> None:
        self.origin = origin
        self._put = put
        self.sdk_spans = SdkSpans(origin, clock)
        # A source of its own: a user who seeds Python's would get the same identifiers again.
        self._random = Random()  # noqa: S311 - identifiers, no secrets
        if not self.sdk_spans.propagates:
            log.warning(
                "Traces end here: OTEL_PROPAGATORS does not name tracecontext, the format of our messages.",
                action="telemetry.not_propagated",
                propagators=os.environ.get("OTEL_PROPAGATORS"),
            )

    def record(
        self,
        shape: SpanShape,
        start_ns: int,
        end_ns: int,
        parent: TraceContext | None,
        attributes: Attributes,
    ) -> SpanStart | None:
        """Record a span that is over, with attributes that nobody may change afterwards; return its start,
        or None if only `span` can make it."""
        self.sdk_spans.look_for_user_provider(end_ns)
        if self.sdk_spans.needed:
            return None
        begun = self._begin(shape, parent if self.sdk_spans.propagates else None, start_ns, None)
        self._put(FinishedSpan(begun, end_ns, attributes, None))
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
        sdk_spans = self.sdk_spans
        begun_ns = sdk_spans.now_ns() if start_ns is None else start_ns
        sdk_spans.look_for_user_provider(begun_ns)
        if not sdk_spans.propagates:
            parent = None
        begun = self._begin(shape, parent, begun_ns, span_id)
        if not sdk_spans.needed and not links:
            return LiveSpan(sdk_spans, self._put, begun, attributes)
        span = sdk_spans.start(begun, attributes, parent=parent.read() if parent else None, links=links)
        context = from_span_context(span.get_span_context())
        ref = context.read()
        if ref is None or not span.is_recording():
            return Span(context, is_remote=False)
        begun = begun._replace(ref=ref, tracestate=context.tracestate)
        return LiveSpan(sdk_spans, self._put, begun, attributes, span)

    def identify(self, instance_id: str) -> None:
        """Set `service.instance.id`. Call it before the first span."""
        self.origin.resource = self.origin.resource.merge(Resource({names.SERVICE_INSTANCE_ID: instance_id}))
        self.sdk_spans.make_own_tracer()

    def _draw(self, bits: int) -> str:
        """Draw an identifier of so many bits; none is zero."""
        return f"{self._random.getrandbits(bits) or 1:0{bits // 4}x}"

    def _begin(
        self, shape: SpanShape, parent: TraceContext | None, start_ns: int, span_id: str | None
    ) -> SpanStart:
        span_id = span_id or self._draw(64)
        parent_ref = parent.read() if parent else None
        if parent is None or parent_ref is None:
            return SpanStart(SpanRef(self._draw(128), span_id, SAMPLED | RANDOM), "", None, shape, start_ns)
        ref = SpanRef(parent_ref.trace_id, span_id, SAMPLED | parent_ref.flags & RANDOM)
        tracestate = normalized_tracestate(parent.tracestate) if parent.tracestate else None
        return SpanStart(ref, parent_ref.span_id, tracestate, shape, start_ns)


def origin_of(resource: Mapping[str, str]) -> SpanOrigin:
    """Describe the service and the host that it runs on."""
    host: dict[str, str | int] = {names.HOST_NAME: socket.gethostname(), names.PROCESS_ID: os.getpid()}
    scope = InstrumentationScope("warrener", service_version())
    return SpanOrigin(Resource.create({**host, **resource}), scope)
