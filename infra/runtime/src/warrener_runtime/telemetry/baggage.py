"""The W3C baggage of the current context: what a caller sends along with its trace, for handlers to read."""

import os

from opentelemetry import baggage, context
from opentelemetry.baggage.propagation import W3CBaggagePropagator

_W3C = W3CBaggagePropagator()


def current_baggage() -> str | None:
    """Return the baggage to send along, as the header has it; None if there is none, or OTEL_PROPAGATORS does
    not name it."""
    if not baggage.get_all() or not propagates_baggage():
        return None
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return carrier.get("baggage")


def attach_baggage(header: str | None) -> None:
    """Make this the baggage of the current context (`contextvars`), which was made for one attempt."""
    if header and propagates_baggage():
        context.attach(_W3C.extract({"baggage": header}))


def propagates_baggage() -> bool:
    """True if OTEL_PROPAGATORS (default `tracecontext,baggage`) names the baggage."""
    named = {name.strip().lower() for name in os.environ.get("OTEL_PROPAGATORS", "").split(",")} - {""}
    return not named or ("baggage" in named and "none" not in named)
