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
_TRACERS_WITHOUT_SDK = (trace.NoOpTracer, trace.ProxyTracer)  # OpenTelemetry's without an SDK
_W3C = TraceContextTextMapPropagator()


class RequestSpans:
    """Opens the span `request <job type>` over the sending of a request.

    Without Telemetry and without a configured OpenTelemetry there is none, and the trace that we are in is
    handed on: then not even the making of a span is paid for.
    """

    def __init__(self, telemetry: Telemetry | None) -> None:
        self._telemetry = telemetry

    @contextmanager
    def open_spans(self) -> Generator[OpenSpan]:
        """Opens spans that all end with the block."""
        if self._telemetry is None and isinstance(trace.get_tracer(_NAME), _TRACERS_WITHOUT_SDK):
            yield _pass_through
            return
        with ExitStack() as spans:

            def opened(job_type: str, job_id: UUID, parent: TraceContext) -> TraceContext:
                return spans.enter_context(self.open_span(job_type, job_id, parent))

            yield opened

    @contextmanager
    def open_span(self, job_type: str, job_id: UUID, parent: TraceContext) -> Generator[TraceContext]:
        """The context to send along; the span is a child of `parent` and ends with the block."""
        name = names.request(job_type)
        attributes = {
            names.JOB_ID: str(job_id),
            names.JOB_TYPE: job_type,
            names.MESSAGING_SYSTEM: names.RABBITMQ,
        }
        if self._telemetry is not None:
            with self._telemetry.span(name, kind="producer", parent=parent, attributes=attributes) as span:
                yield span.context
            return
        tracer = trace.get_tracer(_NAME)
        with tracer.start_as_current_span(
            name, context=_parent(parent), kind=trace.SpanKind.PRODUCER, attributes=attributes
        ):
            yield _context_in(None)


def _pass_through(job_type: str, job_id: UUID, parent: TraceContext) -> TraceContext:
    del job_type, job_id
    return _normalized(parent)


@lru_cache(maxsize=1024)
def _normalized(parent: TraceContext) -> TraceContext:
    """What is malformed is left out, as where there are spans."""
    return _context_in(_parent(parent))


def _context_in(context: Context | None) -> TraceContext:
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context)
    return TraceContext(carrier.get("traceparent"), carrier.get("tracestate"))


def _parent(parent: TraceContext) -> Context:
    """OpenTelemetry's form of our context; never its current one, which in a batch is the span before."""
    carrier = {"traceparent": parent.traceparent or "", "tracestate": parent.tracestate or ""}
    return _W3C.extract(carrier, context=Context())
