"""Traces, in a lean layer of our own: contexts are strings, parents are named, off is nearly free."""

from warrener_runtime.telemetry.context import NO_CONTEXT, TraceContext, current_trace_context
from warrener_runtime.telemetry.provider import Telemetry
from warrener_runtime.telemetry.span import Kind, Span

__all__ = ["NO_CONTEXT", "Kind", "Span", "Telemetry", "TraceContext", "current_trace_context"]
