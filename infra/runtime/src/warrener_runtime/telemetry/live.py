"""A span that is recorded, from its beginning to its end."""

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

from opentelemetry import trace
from opentelemetry.context import attach, detach
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags, TraceState
from opentelemetry.util import types

from warrener_runtime.settings.secrets import mask
from warrener_runtime.telemetry import names
from warrener_runtime.telemetry.context import TraceContext, current
from warrener_runtime.telemetry.finished import Begun, Finished
from warrener_runtime.telemetry.span import Attribute, Attributes


class Recording(Protocol):
    """Where spans are kept."""

    def now_ns(self) -> int:
        """Nanoseconds since 1970."""
        ...

    def put(self, span: Finished) -> None:
        """It has ended."""
        ...

    def rich(self, begun: Begun) -> trace.Span:
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
        "_end_ns",
        "_error",
        "_outer",
        "_over",
        "_recording",
        "_rich",
        "begun",
        "context",
    )

    recording = True

    def __init__(
        self,
        recording: Recording,
        begun: Begun,
        attributes: Attributes | None,
        rich: trace.Span | None = None,
    ) -> None:
        trace_id, span_id, flags = begun.place
        self.begun = begun
        self.context = TraceContext(f"00-{trace_id}-{span_id}-{flags:02x}", begun.tracestate)
        self._recording = recording
        self._attributes: dict[str, Attribute] = dict(attributes) if attributes else {}
        self._error: str | None = None
        self._end_ns: int | None = None
        self._over = False
        self._rich = rich

    # -- ours ----------------------------------------------------------------------------------------------

    def set(self, name: str, value: Attribute) -> None:
        self._attributes[name] = value

    def fail(self, error: BaseException | str) -> None:
        if isinstance(error, BaseException):
            self._attributes[names.ERROR_TYPE] = type(error).__qualname__
        self._error = mask(str(error))

    def end_at(self, end_ns: int) -> None:
        self._end_ns = end_ns

    def inhabit(self) -> None:
        current.set(self.context)
        attach(trace.set_span_in_context(self))

    def finish(self) -> None:
        if self._over:
            return
        self._over = True
        end_ns = self._recording.now_ns() if self._end_ns is None else self._end_ns
        if self._rich is not None:
            self._finish_rich(self._rich, end_ns)
            return
        self._recording.put(Finished(self.begun, end_ns, self._attributes, self._error))

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

    def _finish_rich(self, rich: trace.Span, end_ns: int) -> None:
        rich.set_attributes(self._attributes)
        if self._error is not None:
            rich.set_status(Status(StatusCode.ERROR, self._error))
        rich.end(end_ns)

    def _richly(self) -> trace.Span:
        if self._over:
            return trace.INVALID_SPAN
        if self._rich is None:
            self._rich = self._recording.rich(self.begun)
        return self._rich

    # -- OpenTelemetry's -----------------------------------------------------------------------------------

    def get_span_context(self) -> SpanContext:
        trace_id, span_id, flags = self.begun.place
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
        self._richly().set_attributes(attributes)

    def set_attribute(self, key: str, value: types.AnyValue) -> None:
        self._richly().set_attribute(key, value)

    def add_event(self, name: str, attributes: types.Attributes = None, timestamp: int | None = None) -> None:
        self._richly().add_event(name, attributes, timestamp)

    def add_link(self, context: SpanContext, attributes: types.Attributes = None) -> None:
        self._richly().add_link(context, attributes)

    def update_name(self, name: str) -> None:
        self._richly().update_name(name)

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        self._richly().set_status(status, description)

    def record_exception(
        self,
        exception: BaseException,
        attributes: types.Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,  # noqa: FBT001, FBT002 - as OpenTelemetry has it
    ) -> None:
        self._richly().record_exception(exception, attributes, timestamp, escaped)

    def end(self, end_time: int | None = None) -> None:
        """Not the handler's to end."""
