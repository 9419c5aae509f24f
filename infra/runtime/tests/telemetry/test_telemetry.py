"""Traces: contexts as strings, parents by name, silence that is free, and exports that disturb nobody."""

import asyncio
import sys
import time
from collections.abc import Iterator
from concurrent import futures
from importlib import import_module
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind, StatusCode
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
SAMPLED = TraceContext(f"00-{TRACE_ID}-b7ad6b7169203331-01", "vendor=1")


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
    with telemetry.span("root", parent=context):
        pass
    assert telemetry.spans()[0].parent is None


def test_a_context_of_a_later_version_is_understood() -> None:
    assert TraceContext(f"01-{TRACE_ID}-b7ad6b7169203331-01-what-will-be").trace_id == TRACE_ID


def test_a_span_hangs_under_the_parent_that_is_named_and_under_no_other() -> None:
    telemetry = Telemetry.in_memory("s")
    with telemetry.span("outer") as outer:
        with telemetry.span("named", parent=SAMPLED) as named:
            pass
        with telemetry.span("root"):
            pass
    spans = {span.name: span for span in telemetry.spans()}
    assert named.context.trace_id == TRACE_ID
    assert named.context.tracestate == "vendor=1"
    parent = spans["named"].parent
    assert parent is not None
    assert f"{parent.span_id:016x}" == SAMPLED.span_id
    assert spans["root"].parent is None
    assert outer.context.trace_id != TRACE_ID


def test_a_span_has_links_a_kind_attributes_and_the_given_times() -> None:
    telemetry = Telemetry.in_memory("s")
    with telemetry.span(
        "wait",
        kind="producer",
        links=[LinkTo(SAMPLED, "upstream"), LinkTo(NO_CONTEXT, "upstream")],
        attributes={names.ATTEMPT: 2},
        start_ns=1_000,
    ) as span:
        span.set(names.JOB_ID, "j1")
        span.end_at(5_000)
    (found,) = telemetry.spans()
    assert (found.start_time, found.end_time, found.kind) == (1_000, 5_000, SpanKind.PRODUCER)
    assert [f"{link.context.trace_id:032x}" for link in found.links] == [TRACE_ID]
    assert [dict(link.attributes or {}) for link in found.links] == [{names.LINK: "upstream"}]
    assert dict(found.attributes or {}) == {"warrener.attempt": 2, "warrener.job.id": "j1"}


def test_an_exception_marks_the_span_as_failed_without_its_secrets() -> None:
    telemetry = Telemetry.in_memory("s")
    with pytest.raises(ConnectionError), telemetry.span("work"):
        raise ConnectionError("amqp://me:hunter2@host/ refuses")
    (found,) = telemetry.spans()
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
    (found,) = telemetry.spans()
    assert found.start_time is not None
    assert found.end_time is not None
    assert found.end_time - found.start_time == 90 * 10**9


async def test_each_task_has_the_context_of_its_own_innermost_span() -> None:
    telemetry, handlers, both = Telemetry.in_memory("s"), TracerProvider(), asyncio.Barrier(2)

    async def work(name: str) -> None:
        with telemetry.span(name) as span:
            await both.wait()
            assert current_trace_context() == span.context
            with handlers.get_tracer("handler").start_as_current_span("step") as step:
                assert f"{step.get_span_context().trace_id:032x}" == span.context.trace_id
                assert current_trace_context().span_id == f"{step.get_span_context().span_id:016x}"
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
    with telemetry.span("work", parent=SAMPLED) as span:
        assert not span.recording


def test_silence_hands_on_what_came_in() -> None:
    silent = Telemetry.from_settings("s", ServiceSettings())
    with silent.span("work", parent=SAMPLED) as span:
        assert span.context == SAMPLED
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
            service = {item.key: item.value.string_value for item in resource.resource.attributes}[
                "service.name"
            ]
            self.spans += [(service, span.name) for scope in resource.scope_spans for span in scope.spans]
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
    with telemetry.span(names.ACCEPT.name("bake")):
        pass
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
        with telemetry.span("work"):
            pass
        began = time.monotonic()
        await telemetry.shutdown(timeout=0.3)
        seconds.append(time.monotonic() - began)
    assert seconds[-1] < 2, seconds
