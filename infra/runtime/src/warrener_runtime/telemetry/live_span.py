"""A span that is recorded, from its beginning to its end."""

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

from opentelemetry import trace
from opentelemetry.context import attach, detach
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags, TraceState
from opentelemetry.util import types

from warrener_runtime.secrets import mask
from warrener_runtime.telemetry import names
from warrener_runtime.telemetry.context import TraceContext, current
from warrener_runtime.telemetry.finished_span import FinishedSpan, SpanStart
from warrener_runtime.telemetry.span import Attribute, Attributes


class SpanBackend(Protocol):
    """Where spans are kept."""

    def now_ns(self) -> int:
        """Nanoseconds since 1970."""
        ...

    def put(self, span: FinishedSpan) -> None:
        """It has ended."""
        ...

    def start_sdk_span(self, begun: SpanStart) -> trace.Span:
        """The SDK's span for the same: its identifiers, its beginning, its parent."""
        ...


class LiveSpan(trace.Span):
    """Our own span. Inside, it is OpenTelemetry's current one: what a handler traces hangs under it, and what
    it says of it (attributes, events, exceptions) is the SDK's affair, with its limits and its checks.

    Only where somebody says something is the SDK's span made. It is ours to end: `end` does nothing.
    """

    __slots__ = (
        "_attached",
        "_attributes",
        "_backend",
        "_end_ns",
        "_error",
        "_outer",
        "_over",
        "_sdk_span",
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
        trace_id, span_id, flags = begun.ref
        self.begun = begun
        self.context = TraceContext(f"00-{trace_id}-{span_id}-{flags:02x}", begun.tracestate)
        self._backend = backend
        self._attributes: dict[str, Attribute] = dict(attributes) if attributes else {}
        self._error: str | None = None
        self._end_ns: int | None = None
        self._over = False
        self._sdk_span = sdk_span

    # -- ours ----------------------------------------------------------------------------------------------

    def set(self, name: str, value: Attribute) -> None:
        self._attributes[name] = value

    def fail(self, error: BaseException | str) -> None:
        if isinstance(error, BaseException):
            self._attributes[names.ERROR_TYPE] = type(error).__qualname__
        self._error = mask(str(error))

    def end_at(self, end_ns: int) -> None:
        self._end_ns = end_ns

    def activate(self) -> None:
        current.set(self.context)
        attach(trace.set_span_in_context(self))

    def finish(self) -> None:
        if self._over:
            return
        self._over = True
        end_ns = self._backend.now_ns() if self._end_ns is None else self._end_ns
        if self._sdk_span is not None:
            self._finish_sdk_span(self._sdk_span, end_ns)
            return
        self._backend.put(FinishedSpan(self.begun, end_ns, self._attributes, self._error))

    def __enter__(self) -> Self:
        self._outer = current.get()
        current.set(self.context)
        self._attached = attach(trace.set_span_in_context(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.fail(error)
        current.set(self._outer)
        detach(self._attached)
        self.finish()

    def _finish_sdk_span(self, sdk_span: trace.Span, end_ns: int) -> None:
        sdk_span.set_attributes(self._attributes)
        if self._error is not None:
            sdk_span.set_status(Status(StatusCode.ERROR, self._error))
        sdk_span.end(end_ns)

    def _ensure_sdk_span(self) -> trace.Span:
        if self._over:
            return trace.INVALID_SPAN
        if self._sdk_span is None:
            self._sdk_span = self._backend.start_sdk_span(self.begun)
        return self._sdk_span

    # -- OpenTelemetry's -----------------------------------------------------------------------------------

    def get_span_context(self) -> SpanContext:
        trace_id, span_id, flags = self.begun.ref
        state = self.begun.tracestate
        return SpanContext(
            int(trace_id, 16),
            int(span_id, 16),
            is_remote=False,
            trace_flags=TraceFlags(flags),
            trace_state=TraceState.from_header([state]) if state else None,
        )

    def is_recording(self) -> bool:
        return not self._over

    def set_attributes(self, attributes: Mapping[str, types.AnyValue]) -> None:
        self._ensure_sdk_span().set_attributes(attributes)

    def set_attribute(self, key: str, value: types.AnyValue) -> None:
        self._ensure_sdk_span().set_attribute(key, value)

    def add_event(self, name: str, attributes: types.Attributes = None, timestamp: int | None = None) -> None:
        self._ensure_sdk_span().add_event(name, attributes, timestamp)

    def add_link(self, context: SpanContext, attributes: types.Attributes = None) -> None:
        self._ensure_sdk_span().add_link(context, attributes)

    def update_name(self, name: str) -> None:
        self._ensure_sdk_span().update_name(name)

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        self._ensure_sdk_span().set_status(status, description)

    def record_exception(
        self,
        exception: BaseException,
        attributes: types.Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,  # noqa: FBT001, FBT002 - as OpenTelemetry has it
    ) -> None:
        self._ensure_sdk_span().record_exception(exception, attributes, timestamp, escaped)

    def end(self, end_time: int | None = None) -> None:
        """Not the handler's to end."""
