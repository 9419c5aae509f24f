"""Traces: light spans of our own behind OpenTelemetry's API; contexts are strings, parents are named."""

from warrener_runtime.telemetry.provider import Telemetry
from warrener_runtime.telemetry.spans import NO_CONTEXT, Kind, Span, TraceContext, current_trace_context

__all__ = ["NO_CONTEXT", "Kind", "Span", "Telemetry", "TraceContext", "current_trace_context"]
