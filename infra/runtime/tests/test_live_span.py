"""What a handler says, by OpenTelemetry, of the span that it runs in; and what the operator sets by OTEL_
variables."""

import asyncio
from contextvars import copy_context

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, Status, StatusCode

from warrener_runtime.telemetry import NO_CONTEXT, Telemetry, TraceContext, current_trace_context

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
PARENT = TraceContext(f"00-{TRACE_ID}-b7ad6b7169203331-01", "vendor=1")


def only(telemetry: Telemetry) -> ReadableSpan:
    (span,) = telemetry.spans()
    return span


@pytest.mark.parametrize("parent", [None, PARENT])
def test_what_a_handler_adds_to_its_attempt_is_in_the_same_span(parent: TraceContext | None) -> None:
    telemetry = Telemetry.in_memory("s")
    with telemetry.span(
        "attempt", kind="consumer", parent=parent, attributes={"a": 1}, start_ns=1_000
    ) as ours:
        handlers = trace.get_current_span()
        handlers.set_attribute("rows", [1, 2])
        handlers.set_attributes({"table": "flights"})
        handlers.add_event("loaded", {"rows": 2})
        handlers.record_exception(ValueError("one row was odd"))
        handlers.set_status(Status(StatusCode.OK))
        ours.set("warrener.outcome", "succeeded")
    span = only(telemetry)
    context = span.get_span_context()
    assert context is not None
    assert f"{context.trace_id:032x}" == ours.context.trace_id
    assert f"{context.span_id:016x}" == ours.context.span_id
    assert (span.parent is not None) == (parent is not None)
    assert dict(span.attributes or {}) == {
        "a": 1,
        "rows": (1, 2),
        "table": "flights",
        "warrener.outcome": "succeeded",
    }
    assert [event.name for event in span.events] == ["loaded", "exception"]
    assert (span.start_time, span.kind, span.name) == (1_000, SpanKind.CONSUMER, "attempt")
    assert span.status.status_code is StatusCode.OK


async def test_a_handler_may_set_attributes_in_a_thread() -> None:
    telemetry = Telemetry.in_memory("s")
    with telemetry.span("attempt", parent=PARENT) as ours:
        await asyncio.to_thread(lambda: trace.get_current_span().set_attribute("where", "thread"))
    span = only(telemetry)
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == PARENT.span_id
    assert f"{getattr(span.get_span_context(), 'span_id', 0):016x}" == ours.context.span_id


def test_a_handler_cannot_end_the_span_and_adds_nothing_once_it_has_ended() -> None:
    telemetry = Telemetry.in_memory("s")
    with telemetry.span("attempt"):
        handlers = trace.get_current_span()
        handlers.end()
        assert handlers.is_recording()
    handlers.set_attribute("too", "late")
    assert not handlers.is_recording()
    assert not only(telemetry).attributes


def test_a_context_that_is_made_for_a_span_is_in_it_and_no_other_is() -> None:
    telemetry = Telemetry.in_memory("s")
    span, scope = telemetry.span("attempt"), copy_context()
    scope.run(span.activate)
    assert scope.run(current_trace_context) == span.context
    assert current_trace_context() == NO_CONTEXT
    span.finish()
    span.finish()
    assert only(telemetry).name == "attempt"


def test_a_moment_is_a_span_without_length_in_the_trace_of_its_parent() -> None:
    telemetry = Telemetry.in_memory("s")
    context = telemetry.record_instant("judge bake", parent=PARENT, attributes={"warrener.attempt": 2})
    assert (context.trace_id, context.tracestate) == (TRACE_ID, "vendor=1")
    assert dict(only(telemetry).attributes or {}) == {"warrener.attempt": 2}


def test_the_flag_of_a_random_trace_is_set_by_who_draws_it_and_handed_on() -> None:
    telemetry = Telemetry.in_memory("s")
    root = telemetry.record_instant("accept bake", parent=None, attributes={})
    under = telemetry.record_instant("attempt bake", parent=root, attributes={})
    foreign = telemetry.record_instant("attempt bake", parent=PARENT, attributes={})
    assert [(context.traceparent or "")[-3:] for context in (root, under, foreign)] == ["-03", "-03", "-01"]


# -- OTEL_ variables ---------------------------------------------------------------------------------------


def test_a_sampler_that_takes_none_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    telemetry = Telemetry.in_memory("s")
    with telemetry.span("accept bake") as span:
        assert not span.recording
    assert telemetry.spans() == ()
    assert span.context.sampled is False


def test_a_sampler_by_ratio_takes_what_its_parent_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    telemetry = Telemetry.in_memory("s")
    telemetry.record_instant("accept bake", parent=None, attributes={})
    with telemetry.span("attempt bake", parent=PARENT, attributes={"a": 1}) as span:
        span.set("b", 2)
    assert dict(only(telemetry).attributes or {}) == {"a": 1, "b": 2}
    assert f"{getattr(only(telemetry).parent, 'span_id', 0):016x}" == PARENT.span_id


def test_the_sdk_switched_off_makes_no_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    telemetry = Telemetry.in_memory("s")
    with telemetry.span("accept bake", parent=PARENT) as span:
        assert not span.recording
    assert span.context.trace_id == TRACE_ID
    assert telemetry.spans() == ()


def test_values_are_no_longer_than_the_limit_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "5")
    telemetry = Telemetry.in_memory("s")
    with telemetry.span("accept bake", attributes={"first": "0123456789"}) as span:
        span.set("second", "abcdefghij")
    assert dict(only(telemetry).attributes or {}) == {"first": "01234", "second": "abcde"}


def test_attributes_of_the_resource_are_those_that_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=stage")
    telemetry = Telemetry.in_memory("s")
    telemetry.record_instant("accept bake", parent=None, attributes={})
    found = only(telemetry).resource.attributes
    assert (found["deployment.environment"], found["service.name"]) == ("stage", "s")
