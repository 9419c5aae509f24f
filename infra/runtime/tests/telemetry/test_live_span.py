"""The span of an attempt as its handler reads it and adds to it by OpenTelemetry's API."""

import asyncio
import json
from contextvars import copy_context
from datetime import UTC, datetime

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.trace import SpanKind, Status, StatusCode

from warrener_runtime.telemetry import NO_CONTEXT, SpanFailure, Telemetry, TraceContext, current_trace_context

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
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
        handlers.update_name("attempt of two rows")
        ours.set("warrener.outcome", "succeeded")
        assert current_span().name == "attempt of two rows"
        assert (current_span().attributes or {})["table"] == "flights"
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
    assert (span.start_time, span.kind, span.name) == (1_000, SpanKind.CONSUMER, "attempt of two rows")
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
    context = telemetry.record("judge bake", NOW, NOW, parent=PARENT, attributes={"warrener.attempt": 2})
    assert (context.trace_id, context.tracestate) == (TRACE_ID, "vendor=1")
    assert dict(only(telemetry).attributes or {}) == {"warrener.attempt": 2}


def test_the_flag_of_a_random_trace_is_set_by_who_draws_it_and_handed_on() -> None:
    telemetry = Telemetry.in_memory("s")
    root = telemetry.record("accept bake", NOW, NOW, parent=None, attributes={})
    under = telemetry.record("attempt bake", NOW, NOW, parent=root, attributes={})
    foreign = telemetry.record("attempt bake", NOW, NOW, parent=PARENT, attributes={})
    assert [(context.traceparent or "")[-3:] for context in (root, under, foreign)] == ["-03", "-03", "-01"]


def current_span() -> ReadableSpan:
    """The current span, as vendors' integrations take it."""
    found = trace.get_current_span()
    assert isinstance(found, ReadableSpan)
    return found


def test_a_handler_reads_its_span_as_one_of_the_sdk() -> None:
    telemetry = Telemetry.in_memory("bakery")
    with telemetry.span(
        "attempt bake", kind="consumer", parent=PARENT, attributes={"warrener.attempt": 2}, start_ns=1_000
    ) as ours:
        span = current_span()
        assert (span.name, span.kind, span.start_time, span.end_time) == (
            "attempt bake",
            SpanKind.CONSUMER,
            1_000,
            None,
        )
        assert span.attributes == {"warrener.attempt": 2}
        ours.set("warrener.outcome", "failed")
        assert (span.attributes or {})["warrener.outcome"] == "failed"
        assert span.parent is not None
        assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE_ID, PARENT.span_id)
        assert span.parent.is_remote
        assert span.resource.attributes["service.name"] == "bakery"
        assert span.status.status_code is StatusCode.UNSET
        ours.fail(SpanFailure("Burnt", "burnt"))
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "burnt")
        assert span.instrumentation_scope is not None
        assert span.instrumentation_scope.name == "warrener"
        assert (tuple(span.events), tuple(span.links), span.dropped_attributes) == ((), (), 0)
        assert span.context == span.get_span_context() == trace.get_current_span().get_span_context()
        assert json.loads(span.to_json())["name"] == "attempt bake"
    assert span.end_time is not None
    assert only(telemetry).attributes == {
        "warrener.attempt": 2,
        "warrener.outcome": "failed",
        "error.type": "Burnt",
    }


# -- not recorded ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("telemetry", [Telemetry.disabled(), Telemetry.in_memory("s")])
def test_under_an_unsampled_caller_a_handlers_spans_stay_in_the_callers_trace(telemetry: Telemetry) -> None:
    unsampled, handlers = TraceContext(f"00-{TRACE_ID}-b7ad6b7169203331-00"), TracerProvider()
    with telemetry.span("attempt", parent=unsampled) as span:
        assert not span.recording
        around = trace.get_current_span().get_span_context()
        assert (f"{around.trace_id:032x}", around.is_remote) == (TRACE_ID, True)
        with handlers.get_tracer("handler").start_as_current_span("step") as step:
            assert f"{step.get_span_context().trace_id:032x}" == TRACE_ID
            assert not step.is_recording()
    assert not trace.get_current_span().get_span_context().is_valid


def test_without_an_exporter_a_handlers_spans_are_children_of_the_caller() -> None:
    handlers = TracerProvider()
    span, scope = Telemetry.disabled().span("attempt", parent=PARENT), copy_context()
    scope.run(span.activate)
    step = scope.run(handlers.get_tracer("handler").start_span, "step")
    assert isinstance(step, ReadableSpan)
    assert step.parent is not None
    assert f"{step.parent.span_id:016x}" == PARENT.span_id
    assert step.parent.trace_state.to_header() == "vendor=1"
    assert not trace.get_current_span().get_span_context().is_valid


def test_without_a_caller_nothing_is_made_current() -> None:
    with Telemetry.disabled().span("attempt"):
        assert trace.get_current_span() is trace.INVALID_SPAN
    with Telemetry.disabled().span("attempt", parent=TraceContext("nonsense")):
        assert trace.get_current_span() is trace.INVALID_SPAN
