"""One service's traces and metrics: made, sampled and sent, or not made at all."""

import asyncio
import os
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Self

from warrener_runtime.clock import Clock
from warrener_runtime.telemetry import names
from warrener_runtime.telemetry.metrics import Metrics
from warrener_runtime.telemetry.spans import (
    NO_CONTEXT,
    SAMPLED,
    Attributes,
    Kind,
    LinkTo,
    NoSpan,
    Span,
    SpanFailure,
    SpanShape,
    TraceContext,
    plain_shape,
    propagates_trace_context,
    to_nanoseconds,
)

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from warrener_runtime.settings import ServiceSettings
    from warrener_runtime.telemetry.otlp_metrics import MetricPusher
    from warrener_runtime.telemetry.recorder import SpanRecorder
    from warrener_runtime.telemetry.user_meter import UserMeter

_SHUTDOWN_SECONDS = 5.0


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
        self._pusher: MetricPusher | None = None
        self._user_meter: UserMeter | None = None
        self._propagates = propagates_trace_context()

    @classmethod
    def from_settings(cls, service_name: str, settings: "ServiceSettings") -> Self:
        """Send spans to the collector of the settings, or of OpenTelemetry's variables; make none without
        one. Metrics go by `metric_outlets`."""
        from warrener_runtime.telemetry.metric_outlets import (  # noqa: PLC0415 - as below
            metric_settings,
            service_resource,
            start_pushing,
        )

        chosen = metric_settings(os.environ)
        metrics = Metrics(enabled=chosen.enabled)
        recorder = cls._recorder_from(service_name, settings, metrics)
        resource = service_resource(service_name, os.environ)
        if recorder is not None:
            resource |= {name: str(value) for name, value in recorder.origin.resource.attributes.items()}
        telemetry = cls(recorder, metrics, resource)
        telemetry._pusher = start_pushing(metrics, chosen, lambda: telemetry.resource)
        return telemetry

    @staticmethod
    def _recorder_from(
        service_name: str, settings: "ServiceSettings", metrics: Metrics
    ) -> "SpanRecorder | None":
        # The SDK is loaded only if it is used.
        from warrener_runtime.telemetry.endpoint import log_missing_exporter, otlp_endpoint  # noqa: PLC0415

        protocol = settings.otlp_protocol if "otlp_protocol" in settings.model_fields_set else None
        endpoint = otlp_endpoint(settings.otlp_endpoint, protocol, os.environ)
        if endpoint is None:
            return None
        try:
            from warrener_runtime.telemetry.export import make_exporting_recorder  # noqa: PLC0415
        except ModuleNotFoundError as missing:
            if not (missing.name or "").startswith("opentelemetry"):
                raise
            log_missing_exporter(endpoint, missing)
            return None
        return make_exporting_recorder(service_name, endpoint, metrics)

    @classmethod
    def disabled(cls) -> Self:
        """Make no spans and no metrics, and pass on the contexts of others."""
        return cls()

    @classmethod
    def in_memory(cls, service_name: str, *, clock: Clock | None = None) -> Self:
        """Keep spans for `spans()`, and metrics. With a clock, spans carry its times."""
        from warrener_runtime.telemetry.recorder import make_in_memory_recorder  # noqa: PLC0415 - see above

        return cls(make_in_memory_recorder(service_name, clock), Metrics())

    @property
    def resource(self) -> Mapping[str, str]:
        """The attributes of the service."""
        return self._resource

    def metrics_text(self) -> str | None:
        """The metrics as text for Prometheus, in any thread; None if they are off."""
        from warrener_runtime.telemetry.prometheus import render  # noqa: PLC0415 - rarely needed

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
            return NoSpan(self._passed_on(parent))
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
            begun = recorder.record([(shape, start_ns, end_ns)], parent, attributes)
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

    def record_siblings(
        self,
        ended: Sequence[tuple[SpanShape, datetime, datetime]],
        *,
        parent: TraceContext,
        attributes: Attributes,
    ) -> None:
        """Record spans that are over, from their starts and ends: as `record` does, for less. All have these
        attributes beside those of their shapes."""
        recorder = self._recorder
        if recorder is None or not ended or not self.records(parent):
            return
        exact = [(shape, to_nanoseconds(start), to_nanoseconds(end)) for shape, start, end in ended]
        if recorder.record(exact, parent, attributes) is None:
            for shape, start, end in ended:
                self.record(shape, start, end, parent=parent, attributes=attributes)

    def _passed_on(self, parent: TraceContext | None) -> TraceContext:
        """The context to send along where no span is recorded."""
        return parent if parent is not None and self._propagates else NO_CONTEXT

    def identify(self, instance_id: str) -> None:
        """Set `service.instance.id` of spans and metrics to a name that the service keeps, unless
        OTEL_RESOURCE_ATTRIBUTES names one. Call it before the first span."""
        from warrener_runtime.telemetry.metric_outlets import named_resource  # noqa: PLC0415 - rarely needed

        if self._recorder is not None:
            self._recorder.identify(instance_id)
        self._resource = {
            **self._resource,
            names.SERVICE_INSTANCE_ID: instance_id,
            **named_resource(os.environ),
        }

    def records(self, parent: TraceContext | None) -> bool:
        """True unless a span under `parent` is certainly not recorded; check before making thousands."""
        recorder = self._recorder
        if recorder is None:
            return False
        if parent is None or not recorder.skips_unsampled:
            return True
        ref = parent.read()
        return ref is None or bool(ref.flags & SAMPLED)

    def spans(self) -> "tuple[ReadableSpan, ...]":
        """The spans that have ended; of `in_memory` alone."""
        if self._recorder is None or not self._recorder.is_in_memory:
            raise TypeError("expected Telemetry.in_memory(), got one that keeps no spans")
        return self._recorder.spans()

    async def shutdown(self, timeout: float = _SHUTDOWN_SECONDS) -> None:
        """Send what is left, for at most `timeout` seconds; drop the rest. May be called twice."""
        if self._recorder is not None and self._recorder.is_in_memory:
            return  # stored spans stay readable
        senders = [sender for sender in (self._recorder, self._pusher) if sender is not None]
        self._recorder = self._pusher = None
        if senders:
            await _shut_down(senders, timeout)


async def _shut_down(senders: "Sequence[SpanRecorder | MetricPusher]", timeout: float) -> None:
    """End these, each in a thread that nobody joins: a collector that does not answer must not hold the
    process."""
    loop, pending = asyncio.get_running_loop(), [(sender, asyncio.Event()) for sender in senders]

    def flush(sender: "SpanRecorder | MetricPusher", done: asyncio.Event) -> None:
        sender.shutdown()
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
