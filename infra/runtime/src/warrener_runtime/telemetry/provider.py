"""One service's traces and metrics: made, sampled and sent, or not made at all."""

import asyncio
import os
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Self

from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.secrets import mask
from warrener_runtime.telemetry import names
from warrener_runtime.telemetry.metrics import Metrics, render
from warrener_runtime.telemetry.spans import (
    NO_CONTEXT,
    SAMPLED,
    Attributes,
    Kind,
    LinkTo,
    Span,
    SpanFailure,
    SpanShape,
    TraceContext,
    plain_shape,
    propagates,
    to_nanoseconds,
)

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from warrener_runtime.settings import ServiceSettings
    from warrener_runtime.telemetry.export import BatchingSink
    from warrener_runtime.telemetry.otlp_metrics import MetricPusher
    from warrener_runtime.telemetry.recorder import EndedSpan, SpanRecorder
    from warrener_runtime.telemetry.user_meter import UserMeter

_SHUTDOWN_SECONDS = 5.0

log = get_logger("telemetry")


class Telemetry:
    """Makes the spans of one service, and has its metrics. Never disturbs it: spans that cannot be sent are
    dropped.

    Each service has its own `service.name`, also where several live in one process: nothing here is global.
    """

    def __init__(
        self,
        recorder: "SpanRecorder | None" = None,
        metrics: Metrics | None = None,
        resource: Mapping[str, str] | None = None,
    ) -> None:
        self._recorder = recorder
        self.metrics = metrics or Metrics.disabled()
        self._resource = resource or {}
        self._in_memory: list[EndedSpan] | None = None
        self._sink: BatchingSink | None = None
        self._pusher: MetricPusher | None = None
        self._user_meter: UserMeter | None = None
        self._propagates = propagates()

    @classmethod
    def from_settings(cls, service_name: str, settings: "ServiceSettings") -> Self:
        """Send spans to the collector of the settings, or of OpenTelemetry's variables; make none without
        one. Metrics go by OpenTelemetry's variables. The SDK is loaded only if something is sent."""
        from warrener_runtime.telemetry.otlp import metric_settings, service_resource, trace_endpoint  # noqa: PLC0415 - as below

        of_metrics = metric_settings(os.environ)
        protocol = settings.otlp_protocol if "otlp_protocol" in settings.model_fields_set else None
        telemetry = cls(metrics=Metrics(enabled=of_metrics.enabled), resource=service_resource(service_name))
        if endpoint := trace_endpoint(settings.otlp_endpoint, protocol, os.environ):
            with _logs_missing_sdk("Tracing is off", endpoint.url):
                from warrener_runtime.telemetry.export import make_exporting_recorder  # noqa: PLC0415

                recorder, sink = make_exporting_recorder(telemetry.resource, endpoint, telemetry.metrics)
                found = {name: str(value) for name, value in recorder.origin.resource.attributes.items()}
                telemetry._recorder, telemetry._sink, telemetry._resource = recorder, sink, found
        if endpoint := of_metrics.endpoint:
            with _logs_missing_sdk("Metrics are not pushed", endpoint.url):
                from warrener_runtime.telemetry.otlp_metrics import MetricPusher, otlp_exporter  # noqa: PLC0415

                exporter = otlp_exporter(endpoint, of_metrics.timeout)
                telemetry._pusher = MetricPusher(
                    telemetry.metrics, exporter, endpoint.url, lambda: telemetry.resource, of_metrics.interval
                )
        return telemetry

    @classmethod
    def disabled(cls) -> Self:
        """Make no spans and no metrics, and pass on the contexts of others."""
        return cls()

    @classmethod
    def in_memory(cls, service_name: str, *, clock: Clock | None = None) -> Self:
        """Keep spans for `spans()`, and metrics. With a clock, spans carry its times."""
        from warrener_runtime.telemetry.otlp import service_resource  # noqa: PLC0415 - see above
        from warrener_runtime.telemetry.recorder import SpanRecorder, origin_of  # noqa: PLC0415 - see above

        spans: list[EndedSpan] = []
        recorder = SpanRecorder(origin_of(service_resource(service_name)), spans.append, clock=clock)
        telemetry = cls(recorder, Metrics())
        telemetry._in_memory = spans
        return telemetry

    @property
    def resource(self) -> Mapping[str, str]:
        return self._resource

    def metrics_text(self) -> str | None:
        """The metrics as text for Prometheus, in any thread; None if they are off."""
        return render(self.metrics.read(), self.resource) if self.metrics.enabled else None

    async def look_for_user_meter(self) -> None:
        """Hand the metrics to the meter provider that the process's user has set, if there is one by now.

        They are no longer pushed then: that provider has readers of its own. Call it now and again.
        """
        if not self.metrics.enabled:
            return
        if self._user_meter is None:
            from warrener_runtime.telemetry.user_meter import UserMeter  # noqa: PLC0415 - where user code runs

            self._user_meter = UserMeter(self.metrics)
        if self._user_meter.look() and self._pusher is not None:
            self._pusher.rests = True

    def span(
        self,
        what: str | SpanShape,
        *,
        kind: Kind = "internal",
        parent: TraceContext | None = None,
        links: Sequence[LinkTo] = (),
        attributes: Attributes | None = None,
        start_ns: int | None = None,
        span_id: str | None = None,
    ) -> Span:
        """Begin a span under `parent`, or a new trace if there is none. It ends when its `with` block is
        left.

        Give the shape of a span that is made often, and a name and a kind for others.
        Under a parent that is not sampled the default sampler records nothing, and the parent is passed on.
        """
        if self._recorder is None or not self.records(parent):
            return Span(self._passed_on(parent))
        return self._recorder.span(
            plain_shape(what, kind) if isinstance(what, str) else what,
            parent=parent,
            links=links,
            attributes=attributes,
            start_ns=start_ns,
            span_id=span_id,
        )

    def record(
        self,
        what: str | SpanShape,
        start: datetime,
        end: datetime,
        *,
        kind: Kind = "internal",
        parent: TraceContext | None,
        links: Sequence[LinkTo] = (),
        attributes: Attributes,
        failure: SpanFailure | None = None,
        span_id: str | None = None,
    ) -> TraceContext:
        """Record a span that is over, from its times; return its context. Do not change its attributes
        afterwards."""
        recorder = self._recorder
        if recorder is None or not self.records(parent):
            return self._passed_on(parent)
        shape = plain_shape(what, kind) if isinstance(what, str) else what
        start_ns, end_ns = to_nanoseconds(start), to_nanoseconds(end if end > start else start)
        if failure is None and not links and span_id is None:
            begun = recorder.record(shape, start_ns, end_ns, parent, attributes)
            if begun is not None:
                return begun.context() if self._propagates else NO_CONTEXT
        span = recorder.span(
            shape, parent=parent, links=links, attributes=attributes, start_ns=start_ns, span_id=span_id
        )
        if failure is not None:
            span.fail(failure)
        span.end_at(end_ns)
        span.finish()
        return span.context

    def _passed_on(self, parent: TraceContext | None) -> TraceContext:
        """The context to send along where no span is recorded."""
        return parent if parent is not None and self._propagates else NO_CONTEXT

    def identify(self, instance_id: str) -> None:
        """Set `service.instance.id` of spans and metrics to a name that the service keeps, unless
        OTEL_RESOURCE_ATTRIBUTES names one. Call it before the first span."""
        from warrener_runtime.telemetry.otlp import named_resource  # noqa: PLC0415 - rarely needed

        self._resource = {**self._resource, names.SERVICE_INSTANCE_ID: instance_id, **named_resource()}
        if self._recorder is not None:
            self._recorder.identify(self._resource[names.SERVICE_INSTANCE_ID])

    def records(self, parent: TraceContext | None) -> bool:
        """True unless a span under `parent` is certainly not recorded; check before making thousands."""
        recorder = self._recorder
        if recorder is None:
            return False
        if parent is None or not recorder.sdk_spans.skips_unsampled:
            return True
        ref = parent.read()
        return ref is None or bool(ref.flags & SAMPLED)

    def spans(self) -> "tuple[ReadableSpan, ...]":
        """The spans that have ended; of `in_memory` alone."""
        if self._in_memory is None or self._recorder is None:
            return ()
        from warrener_runtime.telemetry.recorder import to_readable_span  # noqa: PLC0415 - see above

        return tuple(to_readable_span(span, self._recorder.origin) for span in self._in_memory)

    async def shutdown(self, timeout: float = _SHUTDOWN_SECONDS) -> None:
        """Send what is left, for at most `timeout` seconds; drop the rest. May be called twice."""
        if self._in_memory is not None:
            return  # stored spans stay readable
        senders = [sender for sender in (self._sink, self._pusher) if sender is not None]
        self._recorder = self._sink = self._pusher = None
        if senders:
            await _shut_down(senders, timeout)


async def _shut_down(senders: "Sequence[BatchingSink | MetricPusher]", timeout: float) -> None:
    """End these, each in a thread that nobody joins: a collector that does not answer must not hold the
    process."""
    loop, pending = asyncio.get_running_loop(), [(sender, asyncio.Event()) for sender in senders]

    def flush(sender: "BatchingSink | MetricPusher", done: asyncio.Event) -> None:
        sender.close()
        _signal_done(loop, done)

    for sender, done in pending:
        threading.Thread(target=flush, args=(sender, done), name="telemetry-shutdown", daemon=True).start()
    try:
        async with asyncio.timeout(timeout):
            for _, done in pending:
                await done.wait()
    except TimeoutError:
        for sender, done in pending:
            if not done.is_set():
                threading.Thread(target=sender.give_up, name="telemetry-end", daemon=True).start()


def _signal_done(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(done.set)
    except RuntimeError:  # the loop is closed and nobody waits
        return


@contextmanager
def _logs_missing_sdk(consequence: str, url: str) -> Generator[None]:
    """Log that nothing is sent to the endpoint, if the packages for it are not installed."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("opentelemetry"):
            raise
        log.warning(
            f"{consequence}: expected OpenTelemetry's SDK and exporter, got no module {missing.name};"
            " install the extra `otlp` of this package.",
            action="telemetry.exporter_missing",
            endpoint=mask(url),
        )
