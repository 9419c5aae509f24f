"""Traces: light spans of our own behind OpenTelemetry's API; contexts are strings, parents are named."""

from warrener_runtime.telemetry.provider import Telemetry
from warrener_runtime.telemetry.spans import (
    NO_CONTEXT,
    Kind,
    LinkTo,
    Span,
    SpanFailure,
    SpanShape,
    TraceContext,
    current_trace_context,
    to_nanoseconds,
)

__all__ = [
    "NO_CONTEXT",
    "Kind",
    "LinkTo",
    "Span",
    "SpanFailure",
    "SpanShape",
    "Telemetry",
    "TraceContext",
    "current_trace_context",
    "to_nanoseconds",
]
