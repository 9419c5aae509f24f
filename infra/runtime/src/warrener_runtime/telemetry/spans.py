"""Trace contexts and spans as Warrener's code uses them.

OpenTelemetry is imported in the functions that need it: most commands never trace anything, and it takes 80
ms.
"""

import os
import re
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import SpanContext, TraceState

Kind = Literal["internal", "producer", "consumer", "client", "server"]
Attribute = str | int | float | bool
Attributes = Mapping[str, Attribute]

SAMPLED = 0x01
RANDOM = 0x02  # the trace's identifier was drawn at random: samplers may rely on that

# Of a version after 00 the known part is read, as the standard requires; ff is none, and zeros identify
# nothing.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}"
    r"-(?!0{32})(?P<trace_id>[0-9a-f]{32})"
    r"-(?!0{16})(?P<span_id>[0-9a-f]{16})"
    r"-(?P<flags>[0-9a-f]{2})"
    r"(?:(?<!^00.{53})-.*)?"
)


class SpanRef(NamedTuple):
    """A valid context, parsed: identifiers in hexadecimal, and the flags."""

    trace_id: str
    span_id: str
    flags: int

    @property
    def sampled(self) -> bool:
        """True if the service that began the trace records it."""
        return bool(self.flags & SAMPLED)


class TraceContext(NamedTuple):
    """A span's place in its trace: the W3C `traceparent` and `tracestate` of events, headers and rows."""

    traceparent: str | None = None
    tracestate: str | None = None

    @property
    def trace_id(self) -> str | None:
        """The trace's identifier in hexadecimal; None without a valid context."""
        ref = self.read()
        return ref.trace_id if ref else None

    @property
    def span_id(self) -> str | None:
        """The span's identifier in hexadecimal; None without a valid context."""
        ref = self.read()
        return ref.span_id if ref else None

    @property
    def sampled(self) -> bool | None:
        """True if the service that began the trace records it; None without a valid context."""
        ref = self.read()
        return ref.sampled if ref else None

    def read(self) -> SpanRef | None:
        """Parse the context; None if there is no valid one."""
        return _read(self.traceparent) if self.traceparent else None


@lru_cache(maxsize=1024)  # a parent is read to decide about sampling, and again for the span
def _read(traceparent: str) -> SpanRef | None:
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None:
        return None
    trace_id, span_id, flags = found.groups()
    return SpanRef(trace_id, span_id, int(flags, 16))


NO_CONTEXT = TraceContext()


def read_traceparent(value: object) -> str | None:
    """Return a `traceparent` of a message that anybody may have written; None if it is malformed."""
    return value if isinstance(value, str) and _read(value) is not None else None


current: ContextVar[TraceContext] = ContextVar("warrener_trace_context", default=NO_CONTEXT)
"""The context of Warrener's span around this task; log lines take the trace's identifier from it."""


def current_trace_context() -> TraceContext:
    """Return the context to send along: that of the innermost span, OpenTelemetry's or ours."""
    from opentelemetry import trace  # noqa: PLC0415 - see above

    if not propagates():
        return NO_CONTEXT
    found = trace.get_current_span().get_span_context()
    return from_span_context(found) if found.is_valid else current.get()


def innermost_span() -> SpanRef | None:
    """Return the innermost span around this task, OpenTelemetry's or ours, to name it in a log line."""
    if "opentelemetry.trace" in sys.modules:  # else nobody has made a span with it
        from opentelemetry import trace  # noqa: PLC0415 - see above

        found = trace.get_current_span().get_span_context()
        if found.is_valid:
            return SpanRef(f"{found.trace_id:032x}", f"{found.span_id:016x}", int(found.trace_flags))
    context = current.get()
    return None if context is NO_CONTEXT else context.read()


def propagates(name: str = "tracecontext") -> bool:
    """True if OTEL_PROPAGATORS (default `tracecontext,baggage`) names this format.

    The W3C trace context is the one format of traces that our messages carry. With `none`, or with other
    formats alone, a process neither continues the traces of received messages nor sends its own along.
    """
    named = {name.strip().lower() for name in os.environ.get("OTEL_PROPAGATORS", "").split(",")} - {""}
    return not named or (name in named and "none" not in named)


def to_span_context(ref: SpanRef, tracestate: str | None, *, is_remote: bool) -> "SpanContext":
    from opentelemetry.trace import SpanContext, TraceFlags  # noqa: PLC0415 - see above

    return SpanContext(
        int(ref.trace_id, 16),
        int(ref.span_id, 16),
        is_remote=is_remote,
        trace_flags=TraceFlags(ref.flags & (SAMPLED | RANDOM)),
        trace_state=_trace_state(tracestate) if tracestate else None,
    )


def from_span_context(context: "SpanContext") -> TraceContext:
    if not context.is_valid:
        return NO_CONTEXT
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"
    return TraceContext(parent, context.trace_state.to_header() or None)


@lru_cache(maxsize=1024)
def normalized_tracestate(tracestate: str) -> str | None:
    """Leave out the malformed members."""
    return _trace_state(tracestate).to_header() or None


def _trace_state(header: str) -> "TraceState":
    from opentelemetry.trace import TraceState  # noqa: PLC0415 - see above

    return TraceState.from_header([header])


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_nanoseconds(moment: datetime) -> int:
    """Nanoseconds since 1970, exact."""
    since = moment - _EPOCH
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000


@dataclass(frozen=True, slots=True, eq=False)
class SpanShape:
    """All that many spans share: the name, the kind and the attributes whose values repeat.

    Make each shape once and keep it, for it is encoded once. A span's own attributes have other names.
    """

    name: str
    kind: Kind
    attributes: Attributes


@lru_cache(maxsize=1024)
def plain_shape(name: str, kind: Kind) -> SpanShape:
    """Return the shape of spans that share nothing but name and kind."""
    return SpanShape(name, kind, {})


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


class SpanFailure(NamedTuple):
    """The failure of a span: class of the error and message. With `raised`, the span also has the event
    `exception`, with the traceback if there is one."""

    type: str
    message: str
    raised: bool = False
    stacktrace: str = ""


class LinkTo(NamedTuple):
    """A link to the span of `context`, and what that is for this one."""

    context: TraceContext
    what: str


class Span:
    """Something that takes time, and ends when its `with` block is left.

    This one is not recorded. The context that it was given stays the current one, so that no trace breaks
    here: spans that a handler makes by OpenTelemetry become children of the caller's, and share its sampling.
    """

    __slots__ = ("_is_remote", "_outer", "_token", "context", "own_context")

    recording = False
    """True if the span is recorded; skip costly attributes if not."""
    context: TraceContext
    """The context to send along, so that spans of others become children of this one."""
    own_context: TraceContext
    """The context in this process, which log lines name."""

    def __init__(self, context: TraceContext, *, is_remote: bool = True) -> None:
        self.context = self.own_context = context
        self._is_remote = is_remote
        self._outer = NO_CONTEXT
        self._token: Token[Context] | None = None

    def set(self, name: str, value: Attribute) -> None:
        """Set an attribute."""

    def fail(self, error: BaseException | SpanFailure) -> None:
        """Mark the span as failed, with the reason. An exception that leaves the block does that."""

    def link(self, link: LinkTo) -> None:
        """Add a link to another span."""

    def end_at(self, end_ns: int) -> None:
        """End the span at this time (nanoseconds since 1970) rather than when the block is left."""

    def finish(self) -> None:
        """End the span."""

    def discard(self) -> None:
        """Do not record the span: another process records it."""

    def activate(self) -> None:
        """Make this the current span of a context (`contextvars`) made for it. `finish` ends the span."""
        current.set(self.own_context)
        self._attach()

    def _attach(self) -> "Token[Context] | None":
        """Make this OpenTelemetry's current span."""
        ref = self.context.read()
        if ref is None:
            return None
        from opentelemetry.context import attach  # noqa: PLC0415 - see above
        from opentelemetry.trace import NonRecordingSpan, set_span_in_context  # noqa: PLC0415 - likewise

        found = to_span_context(ref, self.context.tracestate, is_remote=self._is_remote)
        return attach(set_span_in_context(NonRecordingSpan(found)))

    def __enter__(self) -> Self:
        self._outer = current.get()
        current.set(self.own_context)
        self._token = self._attach()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.fail(error)
        current.set(self._outer)
        if self._token is not None:
            from opentelemetry.context import detach  # noqa: PLC0415 - see above

            detach(self._token)
        self.finish()
