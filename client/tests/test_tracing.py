"""A span for each request, for those who look at spans, and the context goes along in the event."""

import json
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from opentelemetry import baggage, trace
from opentelemetry.context import attach, detach
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind
from tests.captured_service import events_in

from warrener_client import Client, JobSpec
from warrener_contracts.topology import REQUESTS_QUEUE
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.telemetry import Telemetry, TraceContext
from warrener_runtime.telemetry.spans import current

OURS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def callers_tracer(monkeypatch: pytest.MonkeyPatch) -> trace.Tracer:
    """An OpenTelemetry that the caller has configured, for the time of one test."""
    provider = TracerProvider()
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return provider.get_tracer("shop")


async def sent_trace_context(client: Client, broker: MemoryBroker) -> tuple[str | None, str | None]:
    """The trace context of one request, as the event and as the headers carry it."""
    await client.request("flights.load")
    message = broker.peek(REQUESTS_QUEUE.name)[-1]
    header = message.headers.get("traceparent")
    return json.loads(message.body).get("traceparent"), None if header is None else str(header)


async def test_a_given_telemetry_gets_a_producer_span_for_each_request() -> None:
    broker, telemetry = MemoryBroker(), Telemetry.in_memory("shop")
    async with Client(bus=MemoryBus(broker), telemetry=telemetry) as client:
        in_event, in_headers = await sent_trace_context(client, broker)
        await client.request_batch([JobSpec("mail.send"), JobSpec("mail.send")])
    spans = telemetry.spans()
    assert sorted(span.name for span in spans) == [
        "request flights.load",
        "request mail.send",
        "request mail.send",
    ]
    assert {span.kind for span in spans} == {SpanKind.PRODUCER}
    contexts = [(span.name, context) for span in spans if (context := span.get_span_context())]
    assert len({context.trace_id for _, context in contexts}) == 3
    first = next(span for span in spans if span.name == "request flights.load")
    assert in_event == in_headers
    assert TraceContext(in_event).span_id == f"{dict(contexts)[first.name].span_id:016x}"
    assert first.attributes is not None
    assert first.attributes["warrener.job.type"] == "flights.load"


async def test_without_anybody_who_looks_the_trace_that_we_are_in_is_handed_on() -> None:
    broker = MemoryBroker()
    async with Client(bus=MemoryBus(broker)) as client:
        assert await sent_trace_context(client, broker) == (None, None)
        with inside(TraceContext(OURS)):
            assert await sent_trace_context(client, broker) == (OURS, OURS)
        await client.request("flights.load", traceparent=OURS)
        assert broker.peek(REQUESTS_QUEUE.name)[-1].headers == {"traceparent": OURS}


async def test_the_callers_baggage_goes_along_whether_or_not_there_is_a_trace() -> None:
    broker = MemoryBroker()
    async with Client(bus=MemoryBus(broker)) as client:
        token = attach(baggage.set_baggage("tenant", "acme"))
        try:
            await client.request_batch([JobSpec("flights.load"), JobSpec("flights.load")])
        finally:
            detach(token)
        await client.request("flights.load")
    *carried, without = broker.peek(REQUESTS_QUEUE.name)
    assert [event.baggage for event in events_in(carried)] == ["tenant=acme"] * 2
    assert b"baggage" not in without.body


async def test_the_callers_opentelemetry_makes_the_span_where_it_is_configured(
    callers_tracer: trace.Tracer,
) -> None:
    broker = MemoryBroker()
    async with Client(bus=MemoryBus(broker)) as client:
        with callers_tracer.start_as_current_span("checkout") as outer:
            sent, _ = await sent_trace_context(client, broker)
    context = TraceContext(sent)
    assert context.trace_id == f"{outer.get_span_context().trace_id:032x}"
    assert context.span_id != f"{outer.get_span_context().span_id:016x}"


async def test_no_context_goes_along_where_the_propagators_name_none(
    callers_tracer: trace.Tracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_PROPAGATORS", "none")
    broker = MemoryBroker()
    async with Client(bus=MemoryBus(broker)) as client:
        with callers_tracer.start_as_current_span("checkout"):
            assert await sent_trace_context(client, broker) == (None, None)


@contextmanager
def inside(context: TraceContext) -> Generator[None]:
    token = current.set(context)
    yield
    current.reset(token)
