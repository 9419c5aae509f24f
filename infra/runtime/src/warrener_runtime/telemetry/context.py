"""The W3C trace context as it travels: two strings."""

import re
from contextvars import ContextVar
from functools import lru_cache
from typing import NamedTuple

# Of a version after 00 we read what we know, as the standard asks; ff is none, and zeros identify nothing.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}"
    r"-(?!0{32})(?P<trace_id>[0-9a-f]{32})"
    r"-(?!0{16})(?P<span_id>[0-9a-f]{16})"
    r"-(?P<flags>[0-9a-f]{2})"
    r"(?:(?<!^00.{53})-.*)?"
)


class SpanRef(NamedTuple):
    """A valid context, read: identifiers in hexadecimal, and the flags."""

    trace_id: str
    span_id: str
    flags: int

    @property
    def sampled(self) -> bool:
        """Whether the one who began the trace records it."""
        return bool(self.flags & SAMPLED)


SAMPLED = 0x01
RANDOM = 0x02  # the trace's identifier was drawn at random: those who sample by it may rely on that


class TraceContext(NamedTuple):
    """Where a span hangs in its trace: `traceparent` and `tracestate` of events, headers and rows."""

    traceparent: str | None = None
    tracestate: str | None = None

    @property
    def trace_id(self) -> str | None:
        """The identifier of the trace in hexadecimal, or None if there is no valid context."""
        found = self.read()
        return found.trace_id if found else None

    @property
    def span_id(self) -> str | None:
        """The identifier of the span in hexadecimal, or None if there is no valid context."""
        found = self.read()
        return found.span_id if found else None

    @property
    def sampled(self) -> bool | None:
        """Whether the one who began the trace records it; None if there is no valid context."""
        found = self.read()
        return found.sampled if found else None

    def read(self) -> SpanRef | None:
        """All of it at once, or None if there is no valid context."""
        return _read(self.traceparent) if self.traceparent else None


@lru_cache(maxsize=1024)  # it is asked whether to record, and then where
def _read(traceparent: str) -> SpanRef | None:
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None:
        return None
    trace_id, span_id, flags = found.groups()
    return SpanRef(trace_id, span_id, int(flags, 16))


NO_CONTEXT = TraceContext()

current: ContextVar[TraceContext] = ContextVar("warrener_trace_context", default=NO_CONTEXT)
"""The context of the span that this task is in; logs take the trace's identifier from it."""


def current_trace_context() -> TraceContext:
    """The context of the innermost span around us, whoever made it: OpenTelemetry's current one, or ours."""
    from opentelemetry import trace  # noqa: PLC0415 - only who asks for it pays for the import

    found = trace.get_current_span().get_span_context()
    if not found.is_valid:
        return current.get()
    parent = f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags & 0xFF:02x}"
    return TraceContext(parent, found.trace_state.to_header() or None)
