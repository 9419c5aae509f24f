"""A span per request, where somebody looks at spans: of a Telemetry that was given, or of the caller's
OpenTelemetry."""

from collections.abc import Generator
from contextlib import contextmanager
from uuid import UUID

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from warrener_runtime.telemetry import Telemetry, TraceContext, names

_W3C = TraceContextTextMapPropagator()


class RequestSpans:
    """Opens the span `request <job type>` over the sending of a request.

    Without Telemetry and without a configured OpenTelemetry there is none, and the trace that we are in is
    handed on.
    """

    def __init__(self, telemetry: Telemetry | None) -> None:
        self._telemetry = telemetry

    @contextmanager
    def over(self, job_type: str, job_id: UUID, around: TraceContext) -> Generator[TraceContext]:
        """The context to send along; the span is a child of `around` and ends with the block."""
        name = names.request(job_type)
        attributes = {
            names.JOB_ID: str(job_id),
            names.JOB_TYPE: job_type,
            names.MESSAGING_SYSTEM: names.RABBITMQ,
        }
        if self._telemetry is not None:
            with self._telemetry.span(name, kind="producer", parent=around, attributes=attributes) as span:
                yield span.context
            return
        tracer = trace.get_tracer("warrener.client")
        with tracer.start_as_current_span(
            name, context=_parent(around), kind=trace.SpanKind.PRODUCER, attributes=attributes
        ):
            carrier: dict[str, str] = {}
            _W3C.inject(carrier)
            yield TraceContext(carrier.get("traceparent"), carrier.get("tracestate"))


def _parent(around: TraceContext) -> Context:
    """OpenTelemetry's form of our context; never its current one, which in a batch is the span before."""
    carrier = {"traceparent": around.traceparent or "", "tracestate": around.tracestate or ""}
    return _W3C.extract(carrier, context=Context())
