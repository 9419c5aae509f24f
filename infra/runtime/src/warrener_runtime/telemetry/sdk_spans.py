"""The SDK's spans: those that stand for ours, and those that a tracer provider of the user makes.

OpenTelemetry's variables set sampling, limits and whether there is tracing at all; the SDK reads them.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, Tracer, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, DEFAULT_ON, ParentBased, Sampler
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, NonRecordingSpan, SpanKind

from warrener_runtime.clock import Clock
from warrener_runtime.telemetry import names, spans

SPAN_KINDS: Mapping[spans.Kind, SpanKind] = {kind: SpanKind[kind.upper()] for kind in get_args(spans.Kind)}
_ROOT = Context()  # explicit: a span never takes its parent from the context around it
_MAX_OWN_ATTRIBUTES = 16  # no span of ours has more
_USER_PROVIDER_CHECK_INTERVAL = 1_000_000_000  # nanoseconds


@dataclass(slots=True)
class SpanOrigin:
    """The service that spans come from. Its resource may be completed after the start."""

    resource: Resource
    scope: InstrumentationScope


class SdkSpans:
    """Starts the SDK's spans for one service.

    A tracer provider that the user has set globally makes all spans, so that its span processors see them
    from start to end; its sampler and its limits then count. It may be set at any time and is found within a
    second.
    """

    def __init__(self, origin: SpanOrigin, clock: Clock | None = None) -> None:
        self._clock = clock
        self.origin = origin
        self.propagates = spans.propagates()
        self._ids = _PresetIdGenerator()
        self._next_check_ns = 0
        provider = self.make_own_tracer()
        self.needed = not (
            isinstance(self.own_tracer, Tracer)  # not if the SDK is disabled
            and provider.sampler in (DEFAULT_ON, ALWAYS_ON)
            and _is_unlimited(SpanLimits())
        )
        """True if the SDK makes every span, from its start."""
        self.skips_unsampled = self.propagates and _skips_unsampled(provider.sampler)
        """True if no span under a parent that is not sampled is recorded."""

    def now_ns(self) -> int:
        """Nanoseconds since 1970."""
        return int(self._clock.now().timestamp() * 1e9) if self._clock else time.time_ns()

    def make_own_tracer(self) -> TracerProvider:
        """Make the tracer of this service; again if its resource has changed."""
        origin = self.origin
        provider = TracerProvider(resource=origin.resource, shutdown_on_exit=False, id_generator=self._ids)
        self.own_tracer = self._tracer = provider.get_tracer(origin.scope.name, origin.scope.version)
        return provider

    def look_for_user_provider(self, now_ns: int) -> None:
        """Look for a user's provider, unless that was done within a second before this moment."""
        if now_ns < self._next_check_ns:
            return
        self._next_check_ns = now_ns + _USER_PROVIDER_CHECK_INTERVAL
        provider = trace.get_tracer_provider()
        if isinstance(provider, TracerProvider):
            self._tracer = provider.get_tracer(self.origin.scope.name, self.origin.scope.version)
            self.needed = True
            self.skips_unsampled = self.propagates and _skips_unsampled(provider.sampler)

    def start(
        self,
        begun: spans.SpanStart,
        attributes: spans.Attributes | None,
        *,
        parent: spans.SpanRef | None,
        links: Sequence[spans.LinkTo] = (),
        tracer: trace.Tracer | None = None,
    ) -> trace.Span:
        """Start a span. It has the identifiers of `begun` unless a provider of the user makes it; with
        `own_tracer` none does."""
        ref, _, tracestate, shape, start_ns = begun
        context = _ROOT
        if parent is not None:
            remote = spans.to_span_context(parent, tracestate, is_remote=True)
            context = trace.set_span_in_context(NonRecordingSpan(remote), _ROOT)
        self._ids.preset(ref)
        span = (tracer or self._tracer).start_span(
            shape.name,
            context=context,
            kind=SPAN_KINDS[shape.kind],
            attributes={**shape.attributes, **(attributes or {})},
            links=[
                Link(
                    spans.to_span_context(found, link.context.tracestate, is_remote=True),
                    {names.LINK: link.what},
                )
                for link in links
                if (found := link.context.read())
            ],
            start_time=start_ns,
            record_exception=False,
        )
        self._ids.preset(None)  # the span was not of the SDK, or a sampler dropped it
        return span


class _PresetIdGenerator(RandomIdGenerator):
    """Random identifiers, or those of the light span that the SDK's next one stands for."""

    def __init__(self) -> None:
        self._thread = threading.local()  # handlers add to their span in threads too

    def preset(self, ref: spans.SpanRef | None) -> None:
        """Give these, or none, to the next span of this thread."""
        self._thread.ref = ref

    def generate_trace_id(self) -> int:
        preset: spans.SpanRef | None = getattr(self._thread, "ref", None)
        return int(preset.trace_id, 16) if preset else super().generate_trace_id()

    def generate_span_id(self) -> int:
        preset: spans.SpanRef | None = getattr(self._thread, "ref", None)
        self._thread.ref = None
        return int(preset.span_id, 16) if preset else super().generate_span_id()


def _skips_unsampled(sampler: Sampler) -> bool:
    """True if the sampler certainly drops a span under a remote parent that is not sampled, as the default
    does."""
    description: str = sampler.get_description()
    return isinstance(sampler, ParentBased) and "remoteParentNotSampled:AlwaysOffSampler" in description


def _is_unlimited(limits: SpanLimits) -> bool:
    """True if no span of ours can exceed the limits."""
    max_attributes = limits.max_span_attributes
    return limits.max_span_attribute_length is None and (
        max_attributes is None or max_attributes >= _MAX_OWN_ATTRIBUTES
    )
