"""Spans: the one that is recorded, and the one that costs nothing."""

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol, Self

from warrener_runtime.settings.secrets import mask
from warrener_runtime.telemetry import names
from warrener_runtime.telemetry.context import TraceContext, current

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span as SdkSpan

Kind = Literal["internal", "producer", "consumer", "client", "server"]
Attribute = str | int | float | bool
Attributes = Mapping[str, Attribute]


class Span(Protocol):
    """Something that took time. Used with `with`; an exception that leaves the block marks it as failed."""

    @property
    def context(self) -> TraceContext:
        """What to send along, so that others hang their spans under this one."""
        ...

    @property
    def recording(self) -> bool:
        """Whether anybody will see it; costly attributes need not be made if not."""
        ...

    def set(self, name: str, value: Attribute) -> None:
        """Write an attribute."""
        ...

    def fail(self, error: BaseException | str) -> None:
        """Mark it as failed, and say why."""
        ...

    def end_at(self, end_ns: int) -> None:
        """Let it end at this time (nanoseconds since 1970) and not when the block is left."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class NoSpan:
    """Not recorded: hands on the context that came in, so that a trace does not break at a silent service."""

    __slots__ = ("_outer", "context")

    recording = False

    def __init__(self, context: TraceContext) -> None:
        self.context = context
        self._outer = context

    def set(self, name: str, value: Attribute) -> None: ...

    def fail(self, error: BaseException | str) -> None: ...

    def end_at(self, end_ns: int) -> None: ...

    def __enter__(self) -> Self:
        self._outer = current.get()
        current.set(self.context)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        current.set(self._outer)


class RecordedSpan:
    """A span of the SDK. Inside, it is OpenTelemetry's current one: what a handler traces hangs under it."""

    __slots__ = ("_attached", "_end_ns", "_now_ns", "_outer", "_span", "context")

    recording = True

    def __init__(
        self, span: "SdkSpan", context: TraceContext, now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self.context = context
        self._span = span
        self._now_ns = now_ns
        self._end_ns: int | None = None
        self._outer = context
        self._attached: Token[Context] | None = None

    def set(self, name: str, value: Attribute) -> None:
        self._span.set_attribute(name, value)

    def fail(self, error: BaseException | str) -> None:
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - the SDK is loaded if it is used

        if isinstance(error, BaseException):
            self._span.set_attribute(names.ERROR_TYPE, type(error).__qualname__)
        self._span.set_status(Status(StatusCode.ERROR, mask(str(error))))

    def end_at(self, end_ns: int) -> None:
        self._end_ns = end_ns

    def __enter__(self) -> Self:
        from opentelemetry.context import attach  # noqa: PLC0415 - the SDK is loaded if it is used
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415 - likewise

        self._outer = current.get()
        current.set(self.context)
        self._attached = attach(set_span_in_context(self._span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from opentelemetry.context import detach  # noqa: PLC0415 - the SDK is loaded if it is used

        if error is not None:
            self.fail(error)
        current.set(self._outer)
        if self._attached is not None:
            detach(self._attached)
        self._span.end(self._now_ns() if self._end_ns is None else self._end_ns)
