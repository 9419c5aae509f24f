"""Who makes a span, and which are made: OpenTelemetry's variables, and the user's own tracer provider."""

from collections.abc import Callable

import pytest
from infra.runtime.tests.telemetry.test_spans import NOW, PARENT, TRACE_ID, ids, only
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind
from structlog.testing import capture_logs

from warrener_runtime.telemetry import NO_CONTEXT, LinkTo, Telemetry, TraceContext, current_trace_context
from warrener_runtime.telemetry.otlp import service_resource
from warrener_runtime.telemetry.recorder import EndedSpan, FinishedSpan, SpanRecorder, origin_of
from warrener_runtime.telemetry.spans import current, plain_shape
from warrener_runtime.virtual_clock import VirtualClock

UNSAMPLED = TraceContext(f"00-{TRACE_ID}-b7ad6b7169203331-00")


# -- sampling and limits -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "value"), [("OTEL_TRACES_SAMPLER", "always_off"), ("OTEL_SDK_DISABLED", "true")]
)
def test_a_span_that_is_not_recorded_is_the_current_one_all_the_same(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    telemetry = Telemetry.in_memory("s")
    with telemetry.span("accept bake", parent=PARENT) as span:
        assert not span.recording
        around = trace.get_current_span().get_span_context()
        assert ids(around) == (TRACE_ID, span.context.span_id)
        assert around.trace_flags.sampled == span.context.sampled
        if variable == "OTEL_TRACES_SAMPLER":
            assert not span.context.sampled, "although its parent is"
    root = telemetry.record("accept bake", NOW, NOW, parent=None, attributes={})
    assert not root.sampled
    if variable == "OTEL_SDK_DISABLED":
        assert root == NO_CONTEXT
    assert telemetry.spans() == ()


def test_a_sampler_by_ratio_takes_what_its_parent_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    telemetry = Telemetry.in_memory("s")
    telemetry.record("accept bake", NOW, NOW, parent=None, attributes={})
    with telemetry.span("attempt bake", parent=PARENT, attributes={"a": 1}) as span:
        span.set("b", 2)
    assert dict(only(telemetry).attributes or {}) == {"a": 1, "b": 2}
    assert ids(only(telemetry).parent) == (TRACE_ID, PARENT.span_id)


def test_values_are_no_longer_than_the_limit_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "5")
    telemetry = Telemetry.in_memory("s")
    with telemetry.span("accept bake", attributes={"first": "0123456789"}) as span:
        span.set("second", "abcdefghij")
    assert dict(only(telemetry).attributes or {}) == {"first": "01234", "second": "abcde"}


@pytest.mark.parametrize("sampler", ["always_on", "traceidratio"])
def test_a_sampler_that_ignores_the_parent_records_under_an_unsampled_one(
    sampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    telemetry = Telemetry.in_memory("s")
    assert telemetry.records(UNSAMPLED)
    with telemetry.span("attempt bake", parent=UNSAMPLED) as span:
        assert span.recording
    assert (span.context.trace_id, span.context.sampled) == (TRACE_ID, True)
    assert ids(only(telemetry).parent) == (TRACE_ID, UNSAMPLED.span_id)


@pytest.mark.parametrize(
    "sampler", ["", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"]
)
def test_a_sampler_by_the_parent_drops_under_an_unsampled_one_before_a_span_is_begun(
    sampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    telemetry = Telemetry.in_memory("s")
    assert not telemetry.records(UNSAMPLED)
    assert telemetry.records(PARENT)
    assert telemetry.record("judge bake", NOW, NOW, parent=UNSAMPLED, attributes={}) == UNSAMPLED
    assert telemetry.spans() == ()


# -- the SDK's spans in place of ours ----------------------------------------------------------------------


def record(telemetry: Telemetry) -> ReadableSpan:
    span = telemetry.span("attempt bake", kind="consumer", parent=PARENT, attributes={"a": 1}, start_ns=1_000)
    with span:
        span.set("b", "two")
        span.fail(ValueError("burnt"))
        span.end_at(5_000)
    return only(telemetry)


def facts(span: ReadableSpan) -> dict[str, object]:
    context, parent = span.get_span_context(), span.parent
    assert context is not None
    assert parent is not None
    return {
        "name": span.name,
        "kind": span.kind,
        "times": (span.start_time, span.end_time),
        "attributes": dict(span.attributes or {}),
        "status": (span.status.status_code, span.status.description),
        "parent": (parent.trace_id, parent.span_id, parent.is_remote),
        "context": (context.trace_id, context.trace_flags, context.trace_state.to_header()),
        "service": span.resource.attributes["service.name"],
        "scope": span.instrumentation_scope,
        "events": [event.name for event in span.events],
    }


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio"},
        {"OTEL_TRACES_SAMPLER": "traceidratio"},
        {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "3"},
        {"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "100"},
    ],
)
def test_the_sdks_span_has_what_ours_would(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = facts(record(Telemetry.in_memory("s")))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert facts(record(Telemetry.in_memory("s"))) == expected


def test_ours_are_light_and_the_sdks_are_made_for_links_and_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    def kinds() -> list[bool]:
        ended: list[EndedSpan] = []
        recorder = SpanRecorder(origin_of(service_resource("s")), ended.append)
        for links in ([], [LinkTo(PARENT, "upstream")]):
            recorder.span(
                plain_shape("work", "internal"), parent=None, links=links, attributes=None, start_ns=None
            ).finish()
        return [isinstance(span, FinishedSpan) for span in ended]

    assert kinds() == [True, False]
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "3")
    assert kinds() == [False, False]


# -- the user's span processors ----------------------------------------------------------------------------


class Seen(SpanProcessor):
    """A user's processor, such as one that adds a tenant to each span."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.begun.append(span.name)
        span.set_attribute("tenant", "acme")

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)


UseProvider = Callable[[TracerProvider], Seen]


@pytest.fixture
def use_provider(monkeypatch: pytest.MonkeyPatch) -> UseProvider:
    """Makes a provider the global one, with a processor that records; OpenTelemetry itself allows it once."""

    def use(provider: TracerProvider) -> Seen:
        provider.add_span_processor(seen := Seen())
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
        return seen

    return use


def test_a_users_span_processors_see_our_spans_from_start_to_end(use_provider: UseProvider) -> None:
    seen = use_provider(TracerProvider(resource=Resource({"service.name": "shop", "team": "bread"})))
    telemetry = Telemetry.in_memory("agent")
    with telemetry.span("attempt bake", kind="consumer", parent=PARENT, attributes={"a": 1}) as ours:
        assert seen.begun == ["attempt bake"]
        trace.get_current_span().set_attribute("rows", 3)
        ours.set("warrener.outcome", "succeeded")
        assert seen.ended == []
    (theirs,) = seen.ended
    assert (theirs.name, theirs.kind) == ("attempt bake", SpanKind.CONSUMER)
    assert dict(theirs.attributes or {}) == {
        "a": 1,
        "tenant": "acme",
        "rows": 3,
        "warrener.outcome": "succeeded",
    }
    assert theirs.resource.attributes["service.name"] == "shop"
    # The collector gets the same span, with what the processor added, under the name of our service.
    sent = only(telemetry)
    assert sent.get_span_context() == theirs.get_span_context()
    assert sent.attributes == theirs.attributes
    assert (sent.resource.attributes["service.name"], sent.resource.attributes["team"]) == ("agent", "bread")
    assert ids(theirs.parent) == (TRACE_ID, PARENT.span_id)


async def test_a_provider_that_is_set_while_we_run_is_found_within_a_second(
    use_provider: UseProvider,
) -> None:
    clock = VirtualClock()
    telemetry = Telemetry.in_memory("agent", clock=clock)
    telemetry.span("first").finish()
    seen = use_provider(TracerProvider())
    await clock.advance(1)
    telemetry.span("second").finish()
    assert [span.name for span in seen.ended] == ["second"]
    assert [span.name for span in telemetry.spans()] == ["first", "second"]


def test_a_users_sampler_counts_for_our_spans(use_provider: UseProvider) -> None:
    seen = use_provider(TracerProvider(sampler=ALWAYS_OFF))
    telemetry = Telemetry.in_memory("agent")
    with telemetry.span("attempt bake", parent=PARENT) as span:
        assert not span.recording
    assert (seen.begun, telemetry.spans()) == ([], ())


# -- propagation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("propagators", ["", "tracecontext", "baggage, TraceContext", "b3,tracecontext,b3"])
def test_traces_are_continued_where_the_propagators_name_the_trace_context(
    propagators: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_PROPAGATORS", propagators)
    telemetry = Telemetry.in_memory("s")
    with telemetry.span("attempt bake", parent=PARENT) as span:
        assert (span.context.trace_id, current_trace_context()) == (TRACE_ID, span.context)
    assert Telemetry.disabled().span("attempt bake", parent=PARENT).context == PARENT


@pytest.mark.parametrize("propagators", ["none", "baggage", "b3", "none,tracecontext"])
def test_traces_end_at_the_process_where_the_propagators_do_not(
    propagators: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_PROPAGATORS", propagators)
    with capture_logs() as records:
        telemetry = Telemetry.in_memory("s")
    assert [record["action"] for record in records] == ["telemetry.not_propagated"]
    assert telemetry.records(UNSAMPLED)
    with telemetry.span("attempt bake", parent=UNSAMPLED) as span:
        assert (span.context, current_trace_context()) == (NO_CONTEXT, NO_CONTEXT)
        in_logs = current.get().trace_id
    found = only(telemetry)
    assert found.parent is None
    found_ids = ids(found.get_span_context())
    assert found_ids is not None
    assert in_logs == found_ids[0] != TRACE_ID
    assert Telemetry.disabled().span("attempt bake", parent=PARENT).context == NO_CONTEXT


# -- identifiers and identity ------------------------------------------------------------------------------


@pytest.mark.parametrize("variables", [{}, {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "3"}])
@pytest.mark.parametrize("parent", [PARENT, None])
def test_a_span_has_the_identifier_that_is_given_and_the_next_one_has_its_own(
    variables: dict[str, str], parent: TraceContext | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    telemetry = Telemetry.in_memory("s")
    given = telemetry.span("attempt bake", parent=parent, span_id="00000000000000a1")
    other = telemetry.span("attempt bake", parent=parent)
    assert given.context.span_id == "00000000000000a1"
    assert other.context.span_id != "00000000000000a1"
    assert parent is None or given.context.trace_id == other.context.trace_id == TRACE_ID


def test_an_agents_instance_is_its_agent_id(monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry = Telemetry.in_memory("agent")
    telemetry.identify("a1")
    with telemetry.span("attempt bake") as span:
        span.link(LinkTo(PARENT, "upstream"))  # makes the SDK's span of it
    telemetry.span("attempt cake").finish()
    named = [span.resource.attributes["service.instance.id"] for span in telemetry.spans()]
    assert named == ["a1", "a1"]
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=mine")
    other = Telemetry.in_memory("agent")
    other.identify("a1")
    other.span("attempt bake").finish()
    assert only(other).resource.attributes["service.instance.id"] == "mine"


def test_a_span_that_is_discarded_is_not_recorded() -> None:
    telemetry = Telemetry.in_memory("agent")
    span = telemetry.span("attempt bake", parent=PARENT)
    span.discard()
    span.finish()
    assert telemetry.spans() == ()
