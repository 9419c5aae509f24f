"""The W3C baggage of the current context: what a caller sends along with its trace, for handlers to read."""

from opentelemetry import baggage, context
from opentelemetry.baggage.propagation import W3CBaggagePropagator

from warrener_runtime.telemetry.spans import propagates

_W3C = W3CBaggagePropagator()


def current_baggage() -> str | None:
    """Return the baggage to send along, as the header has it; None if there is none, or OTEL_PROPAGATORS does
    not name it."""
    if not baggage.get_all() or not propagates("baggage"):
        return None
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return carrier.get("baggage")


def attach_baggage(header: str | None) -> None:
    """Make this the baggage of the current context (`contextvars`), which was made for one attempt."""
    if header and propagates("baggage"):
        context.attach(_W3C.extract({"baggage": header}))
