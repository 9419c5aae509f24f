"""Spans: the one that is recorded, and the one that costs nothing."""

from collections.abc import Mapping
from types import TracebackType
from typing import Literal, Protocol, Self

from warrener_runtime.telemetry.context import TraceContext, current

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

    def activate(self) -> None:
        """Be the span that this context (`contextvars`) is in, for good: for one that is made for it. Ended
        by `finish`."""
        ...

    def finish(self) -> None:
        """It has ended."""
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

    def activate(self) -> None:
        current.set(self.context)

    def finish(self) -> None: ...

    def __enter__(self) -> Self:
        self._outer = current.get()
        current.set(self.context)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        current.set(self._outer)
