"""A span that has ended and says nothing but what Warrener itself says: one light object."""

from typing import NamedTuple

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from warrener_runtime.telemetry.context import SpanRef
from warrener_runtime.telemetry.span import Attributes


class SpanStart(NamedTuple):
    """How it began. `parent_id`, in hexadecimal, is empty for the first of a trace; the parent is always in
    another process, or was."""

    ref: SpanRef
    parent_id: str
    tracestate: str | None
    name: str
    kind: SpanKind
    start_ns: int


class FinishedSpan(NamedTuple):
    """What a collector is told of it; `error` is set where it failed."""

    begun: SpanStart
    end_ns: int
    attributes: Attributes
    error: str | None


EndedSpan = FinishedSpan | ReadableSpan
"""A span that has ended: our own, or the SDK's where more was said of it."""


class SpanOrigin(NamedTuple):
    """Whose spans they are."""

    resource: Resource
    scope: InstrumentationScope


def to_readable_span(span: EndedSpan, origin: SpanOrigin) -> ReadableSpan:
    """It as the SDK has it."""
    if isinstance(span, ReadableSpan):
        return span
    begun = span.begun
    ref = begun.ref
    return ReadableSpan(
        begun.name,
        context=_context(begun, ref.span_id, is_remote=False),
        parent=_context(begun, begun.parent_id, is_remote=True) if begun.parent_id else None,
        resource=origin.resource,
        attributes=span.attributes,
        kind=begun.kind,
        status=Status(StatusCode.UNSET) if span.error is None else Status(StatusCode.ERROR, span.error),
        start_time=begun.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=origin.scope,
    )


def _context(begun: SpanStart, span_id: str, *, is_remote: bool) -> SpanContext:
    return SpanContext(
        int(begun.ref.trace_id, 16),
        int(span_id, 16),
        is_remote=is_remote,
        trace_flags=TraceFlags(begun.ref.flags),
        trace_state=TraceState.from_header([begun.tracestate]) if begun.tracestate else None,
    )
