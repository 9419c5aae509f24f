"""A span that is recorded, from its start to its end, and the view of it that handlers have.

Spans that say only what Warrener says are light objects of our own, a tenth of the cost of the SDK's. The SDK
makes a span as soon as a handler adds to it, and where a sampler, a limit, a link or a user's provider
needs one.
"""

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Protocol, Self

from opentelemetry import trace
from opentelemetry.context import attach, detach
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode
from opentelemetry.util import types

from warrener_runtime.secrets import shown
from warrener_runtime.telemetry import names
from warrener_runtime.telemetry.spans import (
    NO_CONTEXT,
    Attribute,
    Attributes,
    Kind,
    LinkTo,
    SpanFailure,
    SpanRef,
    SpanShape,
    TraceContext,
    current,
    to_span_context,
)

SPAN_KINDS: Mapping[Kind, SpanKind] = MappingProxyType(
    {
        "internal": SpanKind.INTERNAL,
        "producer": SpanKind.PRODUCER,
        "consumer": SpanKind.CONSUMER,
        "client": SpanKind.CLIENT,
        "server": SpanKind.SERVER,
    }
)


class SpanStart(NamedTuple):
    """The start of a span. `parent_id`, in hexadecimal, is empty for the first of a trace; the parent is in
    another process, or was."""

    ref: SpanRef
    parent_id: str
    tracestate: str | None
    shape: SpanShape
    start_ns: int

    def context(self) -> TraceContext:
        """The span's place in its trace."""
        trace_id, span_id, flags = self.ref
        return TraceContext(f"00-{trace_id}-{span_id}-{flags:02x}", self.tracestate)


class FinishedSpan(NamedTuple):
    """A light span that has ended, with the attributes that its shape does not have; `error` is set if it
    failed."""

    begun: SpanStart
    end_ns: int
    attributes: Attributes
    error: str | None


EndedSpan = FinishedSpan | ReadableSpan
"""A span that has ended: ours, or the SDK's."""


@dataclass(slots=True)
class SpanOrigin:
    """The service that spans come from. Its resource may be completed after the start."""

    resource: Resource
    scope: InstrumentationScope


class SpanBackend(Protocol):
    """Makes and takes spans; see `SpanRecorder`."""

    @property
    def origin(self) -> SpanOrigin:
        """The service."""
        ...

    @property
    def propagates(self) -> bool:
        """True if contexts are sent along."""
        ...

    def now_ns(self) -> int:
        """Nanoseconds since 1970."""
        ...

    def put(self, span: EndedSpan) -> None:
        """Take a span that has ended."""
        ...

    def start_sdk_span(self, begun: SpanStart, attributes: Attributes) -> trace.Span:
        """Make the SDK's span with the same identifiers, start and parent, and these attributes of its
        own."""
        ...


class LiveSpan:
    """Warrener's own span. Inside it OpenTelemetry's current span is a `HandlerSpan`."""

    __slots__ = (
        "_attributes",
        "_backend",
        "_end_ns",
        "_error",
        "_outer",
        "_over",
        "_own_context",
        "_sdk_span",
        "_token",
        "begun",
        "context",
    )

    recording = True

    def __init__(
        self,
        backend: SpanBackend,
        begun: SpanStart,
        attributes: Attributes | None,
        sdk_span: trace.Span | None = None,
    ) -> None:
        self.begun = begun
        self._own_context = begun.context()
        self.context = self._own_context if backend.propagates else NO_CONTEXT
        self._backend = backend
        self._attributes: dict[str, Attribute] = {**attributes} if attributes else {}
        self._error: str | None = None
        self._end_ns: int | None = None
        self._over = False
        self._sdk_span = sdk_span

    def set(self, name: str, value: Attribute) -> None:
        self._attributes[name] = value
        if self._sdk_span is not None:
            self._sdk_span.set_attribute(name, value)

    def fail(self, error: BaseException | SpanFailure) -> None:
        failure = error if isinstance(error, SpanFailure) else _failure_of(error)
        self.set(names.ERROR_TYPE, failure.type)
        self._error = shown(failure.message)
        if failure.raised:
            described = {names.EXCEPTION_TYPE: failure.type, names.EXCEPTION_MESSAGE: self._error}
            if failure.stacktrace:
                described[names.EXCEPTION_STACKTRACE] = shown(failure.stacktrace)
            self.writable().add_event(names.EXCEPTION, described, self._backend.now_ns())

    def link(self, link: LinkTo) -> None:
        ref = link.context.read()
        if ref is not None:
            context = to_span_context(ref, link.context.tracestate, is_remote=True)
            self.writable().add_link(context, {names.LINK: link.what})

    def end_at(self, end_ns: int) -> None:
        self._end_ns = end_ns

    def activate(self) -> None:
        current.set(self._own_context)
        attach(trace.set_span_in_context(HandlerSpan(self)))

    def finish(self) -> None:
        if self._over:
            return
        self._over = True
        if self._end_ns is None:
            self._end_ns = self._backend.now_ns()
        if self._sdk_span is None:
            self._backend.put(FinishedSpan(self.begun, self._end_ns, self._attributes, self._error))
        else:
            self._finish_sdk_span(self._sdk_span, self._end_ns)

    def discard(self) -> None:
        self._over = True

    def __enter__(self) -> Self:
        self._outer = current.get()
        current.set(self._own_context)
        self._token = attach(trace.set_span_in_context(HandlerSpan(self)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.fail(error)
        current.set(self._outer)
        detach(self._token)
        self.finish()

    # -- for the view of handlers --------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """True once the span has ended."""
        return self._over

    def readable(self) -> ReadableSpan:
        """The span as the SDK shows it, as of now."""
        if isinstance(self._sdk_span, ReadableSpan):
            return self._sdk_span
        end_ns = self._end_ns if self._over else None
        return _readable(self.begun, end_ns, self._attributes, self._error, self._backend.origin)

    def writable(self) -> trace.Span:
        """The SDK's span, made when first needed; once the span has ended, one that ignores everything."""
        if self._over:
            return trace.INVALID_SPAN
        if self._sdk_span is None:
            self._sdk_span = self._backend.start_sdk_span(self.begun, self._attributes)
        return self._sdk_span

    def _finish_sdk_span(self, sdk_span: trace.Span, end_ns: int) -> None:
        if self._error is not None:
            sdk_span.set_status(Status(StatusCode.ERROR, self._error))
        sdk_span.end(end_ns)
        if isinstance(sdk_span, ReadableSpan) and self.begun.ref.sampled:
            self._backend.put(sdk_span)


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
        return to_span_context(begun.ref, begun.tracestate, is_remote=False)

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


def _failure_of(error: BaseException) -> SpanFailure:
    lines = traceback.format_exception(error)
    return SpanFailure(type(error).__qualname__, str(error), raised=True, stacktrace="".join(lines))


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
    begun: SpanStart, end_ns: int | None, attributes: Attributes, error: str | None, origin: SpanOrigin
) -> ReadableSpan:
    parent = begun.ref._replace(span_id=begun.parent_id)
    return ReadableSpan(
        begun.shape.name,
        context=to_span_context(begun.ref, begun.tracestate, is_remote=False),
        parent=to_span_context(parent, begun.tracestate, is_remote=True) if begun.parent_id else None,
        resource=origin.resource,
        attributes={**begun.shape.attributes, **attributes},
        kind=SPAN_KINDS[begun.shape.kind],
        status=Status(StatusCode.UNSET) if error is None else Status(StatusCode.ERROR, error),
        start_time=begun.start_ns,
        end_time=end_ns,
        instrumentation_scope=origin.scope,
    )
