"""Traces: contexts as strings, parents by name, silence that is free, exports that disturb nobody; and the
span of an attempt as its handler reads it and adds to it by OpenTelemetry's API."""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from concurrent import futures
from contextvars import copy_context
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode
from structlog.testing import capture_logs
from tests.acceptance.otlp_receiver import receiver

from warrener_runtime.settings import ServiceSettings
from warrener_runtime.telemetry import (
    NO_CONTEXT,
    LinkTo,
    SpanFailure,
    Telemetry,
    TraceContext,
    current_trace_context,
    names,
)
from warrener_runtime.virtual_clock import VirtualClock

# Neither has types.
grpc: Any = import_module("grpc")
trace_service: Any = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc")

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
PARENT = TraceContext(f"00-{TRACE_ID}-b7ad6b7169203331-01", "vendor=1")


NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry.in_memory("s")


def only(telemetry: Telemetry) -> ReadableSpan:
    (span,) = telemetry.spans()
    return span


def ids(context: SpanContext | None) -> tuple[str, str] | None:
    """The identifiers of trace and span in hexadecimal."""
    return (f"{context.trace_id:032x}", f"{context.span_id:016x}") if context is not None else None


@pytest.mark.parametrize(
    "traceparent",
    [
        None,
        "",
        "nonsense",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"00-{TRACE_ID.upper()}-b7ad6b7169203331-01",
        f"ff-{TRACE_ID}-b7ad6b7169203331-01",
        f"00-{TRACE_ID}-b7ad6b7169203331-01-more",
        f"00-{TRACE_ID[1:]}-b7ad6b7169203331-01",
    ],
)
def test_a_context_that_is_none_is_taken_for_none(traceparent: str | None) -> None:
    context = TraceContext(traceparent)
    assert context.trace_id is None
    assert not context.sampled
    telemetry = Telemetry.in_memory("s")
    telemetry.span("root", parent=context).finish()
    assert only(telemetry).parent is None
    assert TraceContext(f"01-{TRACE_ID}-b7ad6b7169203331-01-what-will-be").trace_id == TRACE_ID


def test_a_span_hangs_under_the_parent_that_is_named_and_under_no_other(telemetry: Telemetry) -> None:
    with telemetry.span("outer") as outer, telemetry.span("named", parent=PARENT) as named:
        telemetry.span("root").finish()
    spans = {span.name: span for span in telemetry.spans()}
    assert named.context.trace_id == TRACE_ID
    assert named.context.tracestate == "vendor=1"
    assert ids(spans["named"].parent) == (TRACE_ID, PARENT.span_id)
    assert spans["root"].parent is None
    assert outer.context.trace_id != TRACE_ID


def test_a_span_has_links_a_kind_attributes_and_the_given_times(telemetry: Telemetry) -> None:
    with telemetry.span(
        "wait",
        kind="producer",
        links=[LinkTo(PARENT, "upstream"), LinkTo(NO_CONTEXT, "upstream")],
        attributes={names.ATTEMPT: 2},
        start_ns=1_000,
    ) as span:
        span.set(names.JOB_ID, "j1")
        span.end_at(5_000)
    found = only(telemetry)
    assert (found.start_time, found.end_time, found.kind) == (1_000, 5_000, SpanKind.PRODUCER)
    assert [f"{link.context.trace_id:032x}" for link in found.links] == [TRACE_ID]
    assert [dict(link.attributes or {}) for link in found.links] == [{names.LINK: "upstream"}]
    assert dict(found.attributes or {}) == {"warrener.attempt": 2, "warrener.job.id": "j1"}


def test_an_exception_marks_the_span_as_failed_without_its_secrets(telemetry: Telemetry) -> None:
    with pytest.raises(ConnectionError), telemetry.span("work"):
        raise ConnectionError("amqp://me:hunter2@host/ refuses")
    found = only(telemetry)
    assert found.status.status_code is StatusCode.ERROR
    assert found.status.description == "amqp://me:***@host/ refuses"
    assert (found.attributes or {})["error.type"] == "ConnectionError"
    (event,) = found.events
    described = dict(event.attributes or {})
    assert (event.name, described["exception.type"]) == ("exception", "ConnectionError")
    assert described["exception.message"] == "amqp://me:***@host/ refuses"
    assert "Traceback" in str(described["exception.stacktrace"])
    assert "hunter2" not in str(described)


async def test_spans_of_a_simulation_carry_its_time() -> None:
    clock = VirtualClock()
    telemetry = Telemetry.in_memory("s", clock=clock)
    with telemetry.span("work"):
        await clock.advance(90)
    found = only(telemetry)
    assert (found.end_time or 0) - (found.start_time or 0) == 90 * 10**9


async def test_each_task_has_the_context_of_its_own_innermost_span() -> None:
    telemetry, handlers, both = Telemetry.in_memory("s"), TracerProvider(), asyncio.Barrier(2)

    async def work(name: str) -> None:
        with telemetry.span(name) as span:
            await both.wait()
            assert current_trace_context() == span.context
            with handlers.get_tracer("handler").start_as_current_span("step") as step:
                innermost = current_trace_context()
                assert ids(step.get_span_context()) == (span.context.trace_id, innermost.span_id)
            assert current_trace_context() == span.context

    await asyncio.gather(work("a"), work("b"))
    assert current_trace_context() == NO_CONTEXT


def test_an_endpoint_without_the_exporter_is_logged_and_not_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.common.trace_encoder", None)
    for name in ("encoding", "export"):
        monkeypatch.delitem(sys.modules, f"warrener_runtime.telemetry.{name}", raising=False)
    with capture_logs() as logs:
        telemetry = Telemetry.from_settings("s", ServiceSettings(otlp_endpoint="http://127.0.0.1:4317"))
    assert [line["action"] for line in logs] == ["telemetry.exporter_missing"]
    with telemetry.span("work", parent=PARENT) as span:
        assert not span.recording


def test_silence_hands_on_what_came_in() -> None:
    silent = Telemetry.from_settings("s", ServiceSettings())
    with silent.span("work", parent=PARENT) as span:
        assert span.context == PARENT
        assert not span.recording
        span.set("a", 1)
        span.fail(SpanFailure("no", "matter"))
    with silent.span("root") as root:
        assert root.context == NO_CONTEXT


class Collector:
    def __init__(self) -> None:
        self.spans: list[tuple[str, str]] = []

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        for resource in request.resource_spans:
            attributes = {item.key: item.value.string_value for item in resource.resource.attributes}
            self.spans += [
                (attributes["service.name"], span.name)
                for scope in resource.scope_spans
                for span in scope.spans
            ]
        return ExportTraceServiceResponse()


@pytest.fixture
def grpc_collector() -> Iterator[tuple[Collector, str]]:
    collector = Collector()
    server = grpc.server(futures.ThreadPoolExecutor(1))
    trace_service.add_TraceServiceServicer_to_server(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield collector, f"http://127.0.0.1:{port}"
    server.stop(None).wait()


async def test_spans_reach_a_collector_by_grpc(grpc_collector: tuple[Collector, str]) -> None:
    collector, endpoint = grpc_collector
    await send_one(ServiceSettings(otlp_endpoint=endpoint, otlp_protocol="grpc"))
    assert collector.spans == [("scheduler", "accept bake")]


async def test_the_variable_for_the_endpoint_alone_starts_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "bakery")
        await send_one(ServiceSettings())
        assert [(span.service, span.name) for span in collector.spans()] == [("bakery", "accept bake")]


async def send_one(settings: ServiceSettings) -> None:
    telemetry = Telemetry.from_settings("scheduler", settings)
    telemetry.span(names.ACCEPT.name("bake")).finish()
    await telemetry.shutdown()
    await telemetry.shutdown()
    with telemetry.span("too late") as span:
        assert not span.recording


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
async def test_a_collector_that_is_not_there_neither_disturbs_nor_delays(protocol: str) -> None:
    settings = ServiceSettings.model_validate(
        {"otlp_endpoint": "http://127.0.0.1:1", "otlp_protocol": protocol}
    )
    seconds = list[float]()
    while not seconds or (seconds[-1] >= 2 and len(seconds) < 5):  # the machine may stand still in one
        telemetry = Telemetry.from_settings("s", settings)
        telemetry.span("work").finish()
        began = time.monotonic()
        await telemetry.shutdown(timeout=0.3)
        seconds.append(time.monotonic() - began)
    assert seconds[-1] < 2, seconds


# -- as a handler sees it ------------------------------------------------------------------------------------


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
    assert ids(span.get_span_context()) == (ours.context.trace_id, ours.context.span_id)
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


def test_a_handler_cannot_end_the_span_and_adds_nothing_once_it_has_ended(telemetry: Telemetry) -> None:
    with telemetry.span("attempt"):
        handlers = trace.get_current_span()
        handlers.end()
        assert handlers.is_recording()
    handlers.set_attribute("too", "late")
    assert not handlers.is_recording()
    assert not only(telemetry).attributes


def test_a_context_that_is_made_for_a_span_is_in_it_and_no_other_is(telemetry: Telemetry) -> None:
    span, scope = telemetry.span("attempt"), copy_context()
    scope.run(span.activate)
    assert scope.run(current_trace_context) == span.context
    assert current_trace_context() == NO_CONTEXT
    span.finish()
    span.finish()
    assert only(telemetry).name == "attempt"


def test_the_flag_of_a_random_trace_is_set_by_who_draws_it_and_handed_on(telemetry: Telemetry) -> None:
    root = telemetry.record("accept bake", NOW, NOW, parent=None, attributes={})
    under = telemetry.record("attempt bake", NOW, NOW, parent=root, attributes={})
    foreign = telemetry.record("attempt bake", NOW, NOW, parent=PARENT, attributes={"a": 2})
    assert (foreign.trace_id, foreign.tracestate) == (TRACE_ID, "vendor=1")
    assert dict(telemetry.spans()[-1].attributes or {}) == {"a": 2}
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
        assert (span.name, span.kind) == ("attempt bake", SpanKind.CONSUMER)
        assert (span.start_time, span.end_time) == (1_000, None)
        assert span.attributes == {"warrener.attempt": 2}
        ours.set("warrener.outcome", "failed")
        assert (span.attributes or {})["warrener.outcome"] == "failed"
        assert ids(span.parent) == (TRACE_ID, PARENT.span_id)
        assert span.parent is not None
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
        assert (ids(around), around.is_remote) == ((TRACE_ID, unsampled.span_id), True)
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
    assert ids(step.parent) == (TRACE_ID, PARENT.span_id)
    assert step.parent.trace_state.to_header() == "vendor=1"
    assert not trace.get_current_span().get_span_context().is_valid


def test_without_a_caller_nothing_is_made_current() -> None:
    with Telemetry.disabled().span("attempt"):
        assert trace.get_current_span() is trace.INVALID_SPAN
    with Telemetry.disabled().span("attempt", parent=TraceContext("nonsense")):
        assert trace.get_current_span() is trace.INVALID_SPAN
