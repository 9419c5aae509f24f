"""OpenTelemetry's view of a span that this process does not record. Needs OpenTelemetry's API, not the
SDK."""

from contextvars import Token

from opentelemetry.context import Context, attach
from opentelemetry.trace import NonRecordingSpan, SpanContext, set_span_in_context

from warrener_runtime.telemetry.spans import SpanRef, to_span_context


class RemoteSpan(NonRecordingSpan):
    """The current span inside a `NoSpan`. Converts the context only if somebody reads it, which few handlers
    do."""

    __slots__ = ("_is_remote", "_ref", "_tracestate")

    def __init__(self, ref: SpanRef, tracestate: str | None, *, is_remote: bool) -> None:
        self._ref, self._tracestate, self._is_remote = ref, tracestate, is_remote

    def get_span_context(self) -> SpanContext:
        return to_span_context(self._ref, self._tracestate, is_remote=self._is_remote)

    def __repr__(self) -> str:
        return f"RemoteSpan({self.get_span_context()!r})"


def attach_remote(ref: SpanRef, tracestate: str | None, *, is_remote: bool) -> Token[Context]:
    """Make the context OpenTelemetry's current one; `detach` the token to undo it."""
    return attach(set_span_in_context(RemoteSpan(ref, tracestate, is_remote=is_remote)))
