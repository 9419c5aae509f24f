"""The recorded spans of one service: who makes them, from their start to their end, and as handlers see them.

A span that says only what Warrener says is a light object of our own, a tenth of the cost of the SDK's. The
SDK makes the span as soon as a handler adds to it, and where a sampler, a limit, a link or a user's provider
needs one. Imported only if tracing is on.
"""

import os
import socket
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextvars import Token
from random import Random
from typing import Any, NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context, attach
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode
from opentelemetry.util import types

from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.secrets import shown
from warrener_runtime.telemetry import names, spans
from warrener_runtime.telemetry.otlp import service_version
from warrener_runtime.telemetry.sdk_spans import SPAN_KINDS, SdkSpans, SpanOrigin

log = get_logger("telemetry")


class FinishedSpan(NamedTuple):
    """A light span that has ended, with the attributes that its shape does not have; `error` is set if it
    failed."""

    begun: spans.SpanStart
    end_ns: int
    attributes: spans.Attributes
    error: str | None


EndedSpan = FinishedSpan | ReadableSpan
"""A span that has ended: ours, or the SDK's."""


class LiveSpan(spans.Span):
    """Warrener's own span. Inside it OpenTelemetry's current span is a `HandlerSpan`."""

    __slots__ = ("_attributes", "_end_ns", "_error", "_over", "_put", "_sdk_span", "_sdk_spans", "begun")

    recording = True

    def __init__(
        self,
        sdk_spans: SdkSpans,
        put: Callable[[EndedSpan], None],
        begun: spans.SpanStart,
        attributes: spans.Attributes | None,
        sdk_span: trace.Span | None = None,
    ) -> None:
        super().__init__(begun.context())
        if not sdk_spans.propagates:
            self.context = spans.NO_CONTEXT
        self.begun = begun
        self._sdk_spans, self._put = sdk_spans, put
        self._attributes: dict[str, spans.Attribute] = {**attributes} if attributes else {}
        self._error: str | None = None
        self._end_ns: int | None = None
        self._over = False
        self._sdk_span = sdk_span

    def set(self, name: str, value: spans.Attribute) -> None:
        self._attributes[name] = value
        if self._sdk_span is not None:
            self._sdk_span.set_attribute(name, value)

    def fail(self, error: BaseException | spans.SpanFailure) -> None:
        if isinstance(error, spans.SpanFailure):
            failure = error
        else:
            stack = "".join(traceback.format_exception(error))
            failure = spans.SpanFailure(type(error).__qualname__, str(error), raised=True, stacktrace=stack)
        self.set(names.ERROR_TYPE, failure.type)
        self._error = shown(failure.message)
        if failure.raised:
            described = {names.EXCEPTION_TYPE: failure.type, names.EXCEPTION_MESSAGE: self._error}
            if failure.stacktrace:
                described[names.EXCEPTION_STACKTRACE] = shown(failure.stacktrace)
            self.writable().add_event(names.EXCEPTION, described, self._sdk_spans.now_ns())

    def link(self, link: spans.LinkTo) -> None:
        ref = link.context.read()
        if ref is not None:
            context = spans.to_span_context(ref, link.context.tracestate, is_remote=True)
            self.writable().add_link(context, {names.LINK: link.what})

    def end_at(self, end_ns: int) -> None:
        self._end_ns = end_ns

    def finish(self) -> None:
        if self._over:
            return
        self._over = True
        if self._end_ns is None:
            self._end_ns = self._sdk_spans.now_ns()
        if self._sdk_span is None:
            self._put(FinishedSpan(self.begun, self._end_ns, self._attributes, self._error))
        else:
            self._finish_sdk_span(self._sdk_span, self._end_ns)

    def discard(self) -> None:
        self._over = True

    def _attach(self) -> Token[Context]:
        return attach(trace.set_span_in_context(HandlerSpan(self)))

    # -- for the view of handlers --------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        return self._over

    def readable(self) -> ReadableSpan:
        """The span as the SDK shows it, as of now."""
        if isinstance(self._sdk_span, ReadableSpan):
            return self._sdk_span
        end_ns = self._end_ns if self._over else None
        return _readable(self.begun, end_ns, self._attributes, self._error, self._sdk_spans.origin)

    def writable(self) -> trace.Span:
        """The SDK's span, made when first needed; once the span has ended, one that ignores everything."""
        if self._over:
            return trace.INVALID_SPAN
        if self._sdk_span is None:
            begun, sdk_spans = self.begun, self._sdk_spans
            parent = begun.ref._replace(span_id=begun.parent_id) if begun.parent_id else None
            self._sdk_span = sdk_spans.start(
                begun, self._attributes, parent=parent, tracer=sdk_spans.own_tracer
            )
        return self._sdk_span

    def _finish_sdk_span(self, sdk_span: trace.Span, end_ns: int) -> None:
        if self._error is not None:
            sdk_span.set_status(Status(StatusCode.ERROR, self._error))
        sdk_span.end(end_ns)
        if isinstance(sdk_span, ReadableSpan) and self.begun.ref.sampled:
            self._put(sdk_span)


class HandlerSpan(trace.Span, ReadableSpan):
    """OpenTelemetry's current span inside one of ours. A handler may read and add to it like any SDK span,
    but not end it."""

    __slots__ = ("_live",)

    def __init__(self, live: LiveSpan) -> None:
        self._live = live  # ReadableSpan's own __init__ is left out: see __getattr__

    def __getattr__(self, name: str) -> Any:
        # ReadableSpan's properties (name, attributes, parent, resource, status …) and to_json read attributes
        # that this object lacks: they come from a ReadableSpan of the same release, made when somebody looks.
        if name == "_live":
            raise AttributeError(name)
        return getattr(self._live.readable(), name)

    def get_span_context(self) -> SpanContext:
        begun = self._live.begun
        return spans.to_span_context(begun.ref, begun.tracestate, is_remote=False)

    def is_recording(self) -> bool:
        return not self._live.is_over

    def set_attributes(self, attributes: Mapping[str, types.AnyValue]) -> None:
        self._live.writable().set_attributes(attributes)

    def set_attribute(self, key: str, value: types.AnyValue) -> None:
        self._live.writable().set_attribute(key, value)

    def add_event(self, name: str, attributes: types.Attributes = None, timestamp: int | None = None) -> None:
        self._live.writable().add_event(name, attributes, timestamp)

    def add_link(self, context: SpanContext, attributes: types.Attributes = None) -> None:
        self._live.writable().add_link(context, attributes)

    def update_name(self, name: str) -> None:
        self._live.writable().update_name(name)

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        self._live.writable().set_status(status, description)

    def record_exception(
        self,
        exception: BaseException,
        attributes: types.Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,  # noqa: FBT001, FBT002 - as OpenTelemetry has it
    ) -> None:
        self._live.writable().record_exception(exception, attributes, timestamp, escaped)

    def end(self, end_time: int | None = None) -> None:
        """Do nothing: the span ends with its attempt."""


def to_readable_span(span: EndedSpan, origin: SpanOrigin) -> ReadableSpan:
    """Convert an ended span to the SDK's form, from the service `origin`."""
    if isinstance(span, FinishedSpan):
        return _readable(span.begun, span.end_ns, span.attributes, span.error, origin)
    if span.resource is origin.resource:
        return span
    return ReadableSpan(  # made by a user's provider, whose resource need not name our service
        span.name,
        context=span.get_span_context(),
        parent=span.parent,
        resource=span.resource.merge(origin.resource),
        attributes=span.attributes,
        events=span.events,
        links=span.links,
        kind=span.kind,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _readable(
    begun: spans.SpanStart,
    end_ns: int | None,
    attributes: spans.Attributes,
    error: str | None,
    origin: SpanOrigin,
) -> ReadableSpan:
    parent = begun.ref._replace(span_id=begun.parent_id)
    return ReadableSpan(
        begun.shape.name,
        context=spans.to_span_context(begun.ref, begun.tracestate, is_remote=False),
        parent=spans.to_span_context(parent, begun.tracestate, is_remote=True) if begun.parent_id else None,
        resource=origin.resource,
        attributes={**begun.shape.attributes, **attributes},
        kind=SPAN_KINDS[begun.shape.kind],
        status=Status(StatusCode.UNSET) if error is None else Status(StatusCode.ERROR, error),
        start_time=begun.start_ns,
        end_time=end_ns,
        instrumentation_scope=origin.scope,
    )


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
        shape: spans.SpanShape,
        start_ns: int,
        end_ns: int,
        parent: spans.TraceContext | None,
        attributes: spans.Attributes,
    ) -> spans.SpanStart | None:
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
        shape: spans.SpanShape,
        *,
        parent: spans.TraceContext | None,
        links: Sequence[spans.LinkTo],
        attributes: spans.Attributes | None,
        start_ns: int | None,
        span_id: str | None = None,
    ) -> spans.Span:
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
        context = spans.from_span_context(span.get_span_context())
        ref = context.read()
        if ref is None or not span.is_recording():
            return spans.Span(context, is_remote=False)
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
        self, shape: spans.SpanShape, parent: spans.TraceContext | None, start_ns: int, span_id: str | None
    ) -> spans.SpanStart:
        span_id = span_id or self._draw(64)
        parent_ref = parent.read() if parent else None
        if parent is None or parent_ref is None:
            return spans.SpanStart(
                spans.SpanRef(self._draw(128), span_id, spans.SAMPLED | spans.RANDOM),
                "",
                None,
                shape,
                start_ns,
            )
        ref = spans.SpanRef(parent_ref.trace_id, span_id, spans.SAMPLED | parent_ref.flags & spans.RANDOM)
        tracestate = spans.normalized_tracestate(parent.tracestate) if parent.tracestate else None
        return spans.SpanStart(ref, parent_ref.span_id, tracestate, shape, start_ns)


def origin_of(resource: Mapping[str, str]) -> SpanOrigin:
    """Describe the service and the host that it runs on."""
    host: dict[str, str | int] = {names.HOST_NAME: socket.gethostname(), names.PROCESS_ID: os.getpid()}
    scope = InstrumentationScope("warrener", service_version())
    return SpanOrigin(Resource.create({**host, **resource}), scope)
