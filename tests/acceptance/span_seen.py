"""Spans as a reader of traces sees them, and the time between them that no span explains."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class SpanSeen:
    """One exported span. `start` and `end` are seconds since 1970; `links` are trace and span ids."""

    service: str
    instance: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    failed: bool
    start: float
    end: float
    attributes: Mapping[str, Any]
    events: tuple[str, ...]
    links: tuple[tuple[str, str], ...]

    @property
    def operation(self) -> str:
        """The first word of its name."""
        return self.name.split()[0]


class SpanReader(Protocol):
    """Receives OTLP over HTTP at `endpoint`."""

    @property
    def endpoint(self) -> str: ...

    def spans(self) -> list[SpanSeen]:
        """All spans that were received."""
        ...


def longest_hole(spans: Iterable[SpanSeen]) -> float:
    """The longest time, in seconds, between start and end of a trace that lies in none of its spans."""
    longest, covered_until = 0.0, None
    for span in sorted(spans, key=lambda span: span.start):
        if covered_until is not None:
            longest = max(longest, span.start - covered_until)
        covered_until = span.end if covered_until is None else max(covered_until, span.end)
    return longest
