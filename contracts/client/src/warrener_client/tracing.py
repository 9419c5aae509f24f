"""A span per request, where somebody looks at spans: of a Telemetry that was given, or of the caller's
OpenTelemetry."""

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from uuid import UUID

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from warrener_runtime.telemetry import Telemetry, TraceContext, names

OpenSpan = Callable[[str, UUID, TraceContext], TraceContext]
"""Job type, job and the context around to the context to send along."""

_NAME = "warrener.client"
_NOBODY_LOOKS = (trace.NoOpTracer, trace.ProxyTracer)  # OpenTelemetry's without an SDK
_W3C = TraceContextTextMapPropagator()


class RequestSpans:
    """Opens the span `request <job type>` over the sending of a request.

    Without Telemetry and without a configured OpenTelemetry there is none, and the trace that we are in is
    handed on: then not even the making of a span is paid for.
    """

    def __init__(self, telemetry: Telemetry | None) -> None:
        self._telemetry = telemetry

    @contextmanager
    def together(self) -> Generator[OpenSpan]:
        """Opens spans that all end with the block."""
        if self._telemetry is None and isinstance(trace.get_tracer(_NAME), _NOBODY_LOOKS):
            yield _handed_on
            return
        with ExitStack() as spans:

            def opened(job_type: str, job_id: UUID, around: TraceContext) -> TraceContext:
                return spans.enter_context(self.over(job_type, job_id, around))

            yield opened

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
        tracer = trace.get_tracer(_NAME)
        with tracer.start_as_current_span(
            name, context=_parent(around), kind=trace.SpanKind.PRODUCER, attributes=attributes
        ):
            yield _context_in(None)


def _handed_on(job_type: str, job_id: UUID, around: TraceContext) -> TraceContext:
    del job_type, job_id
    return _as_opentelemetry_reads(around)


@lru_cache(maxsize=1024)
def _as_opentelemetry_reads(around: TraceContext) -> TraceContext:
    """What is malformed is left out, as where there are spans."""
    return _context_in(_parent(around))


def _context_in(context: Context | None) -> TraceContext:
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context)
    return TraceContext(carrier.get("traceparent"), carrier.get("tracestate"))


def _parent(around: TraceContext) -> Context:
    """OpenTelemetry's form of our context; never its current one, which in a batch is the span before."""
    carrier = {"traceparent": around.traceparent or "", "tracestate": around.tracestate or ""}
    return _W3C.extract(carrier, context=Context())
