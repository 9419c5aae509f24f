"""The W3C trace context as it travels: two strings."""

from contextvars import ContextVar
from typing import NamedTuple

_UNKNOWN_VERSION = "ff"
_LENGTHS = (2, 32, 16, 2)


class TraceContext(NamedTuple):
    """Where a span hangs in its trace: `traceparent` and `tracestate` of events, headers and rows."""

    traceparent: str | None = None
    tracestate: str | None = None

    @property
    def trace_id(self) -> str | None:
        """The identifier of the trace in hexadecimal, or None if there is no valid context."""
        parts = self._parts()
        return parts[1] if parts else None

    @property
    def span_id(self) -> str | None:
        """The identifier of the span in hexadecimal, or None if there is no valid context."""
        parts = self._parts()
        return parts[2] if parts else None

    @property
    def sampled(self) -> bool:
        """Whether the one who began the trace records it."""
        parts = self._parts()
        return bool(parts and int(parts[3], 16) & 1)

    def _parts(self) -> list[str] | None:
        parts = (self.traceparent or "").split("-")
        if len(parts) < len(_LENGTHS) or parts[0] == _UNKNOWN_VERSION:
            return None
        if parts[0] == "00" and len(parts) != len(_LENGTHS):
            return None
        if any(len(part) != length for part, length in zip(parts, _LENGTHS, strict=False)):
            return None
        if not all(_is_hexadecimal(part) for part in parts[:4]):
            return None
        return None if not int(parts[1], 16) or not int(parts[2], 16) else parts


def _is_hexadecimal(text: str) -> bool:
    return all(character in "0123456789abcdef" for character in text)


NO_CONTEXT = TraceContext()

current: ContextVar[TraceContext] = ContextVar("warrener_trace_context", default=NO_CONTEXT)
"""The context of the span that this task is in; logs take the trace's identifier from it."""


def ambient() -> TraceContext:
    """The context of the span around us: ours, or else the one of the program that calls us."""
    ours = current.get()
    if ours.traceparent:
        return ours
    from opentelemetry import trace  # noqa: PLC0415 - only who asks for it pays for the import

    found = trace.get_current_span().get_span_context()
    if not found.is_valid:
        return NO_CONTEXT
    parent = f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags & 0xFF:02x}"
    return TraceContext(parent, found.trace_state.to_header() or None)
