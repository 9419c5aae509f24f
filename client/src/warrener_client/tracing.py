"""A span per request, if the client has Telemetry or the caller has configured OpenTelemetry."""

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from uuid import UUID

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from warrener_runtime.telemetry import NO_CONTEXT, Telemetry, TraceContext, names
from warrener_runtime.telemetry.spans import propagates

OpenSpan = Callable[[str, UUID, TraceContext], TraceContext]
"""Takes the job type, the job id and the current context; returns the context of the request."""

_NAME = "warrener.client"
_TRACERS_WITHOUT_SDK = (trace.NoOpTracer, trace.ProxyTracer)  # OpenTelemetry's without an SDK
_W3C = TraceContextTextMapPropagator()


class RequestSpans:
    """Opens the span `request <job type>` around the publishing of a request.

    Without Telemetry and without a configured OpenTelemetry no span is made; the request carries the current
    trace context.
    """

    def __init__(self, telemetry: Telemetry | None) -> None:
        self._telemetry = telemetry

    @contextmanager
    def open_spans(self) -> Generator[OpenSpan]:
        """Open spans that all end with the block."""
        if self._telemetry is None and isinstance(trace.get_tracer(_NAME), _TRACERS_WITHOUT_SDK):
            yield _pass_through
            return
        with ExitStack() as spans:

            def opened(job_type: str, job_id: UUID, parent: TraceContext) -> TraceContext:
                return spans.enter_context(self.open_span(job_type, job_id, parent))

            yield opened

    @contextmanager
    def open_span(self, job_type: str, job_id: UUID, parent: TraceContext) -> Generator[TraceContext]:
        """Open a child span of `parent` that ends with the block; yields the context of the request."""
        name = names.REQUEST.name(job_type)
        attributes = {
            **names.REQUEST.constants,
            names.JOB_ID: str(job_id),
            names.JOB_TYPE: job_type,
            names.MESSAGING_ROUTING_KEY: job_type,
        }
        if self._telemetry is not None:
            with self._telemetry.span(name, kind="producer", parent=parent, attributes=attributes) as span:
                yield span.context
            return
        tracer = trace.get_tracer(_NAME)
        with tracer.start_as_current_span(
            name, context=_parent(parent), kind=trace.SpanKind.PRODUCER, attributes=attributes
        ):
            yield _context_in(None) if propagates() else NO_CONTEXT


def _pass_through(job_type: str, job_id: UUID, parent: TraceContext) -> TraceContext:
    del job_type, job_id
    return _normalized(parent)


@lru_cache(maxsize=1024)
def _normalized(parent: TraceContext) -> TraceContext:
    """Drop malformed values, as a span would."""
    return _context_in(_parent(parent))


def _context_in(context: Context | None) -> TraceContext:
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context)
    return TraceContext(carrier.get("traceparent"), carrier.get("tracestate"))


def _parent(parent: TraceContext) -> Context:
    """The context for OpenTelemetry; never the current one, which in a batch is the previous span."""
    carrier = {"traceparent": parent.traceparent or "", "tracestate": parent.tracestate or ""}
    return _W3C.extract(carrier, context=Context())
