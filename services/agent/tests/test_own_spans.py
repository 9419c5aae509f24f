"""Spans that a handler makes by OpenTelemetry's own API belong to its attempt."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from services.agent.tests.stage import Stage

from warrener_agent import Agent
from warrener_agent.definitions.job import ExecutorName
from warrener_contracts.events import AttemptSucceeded
from warrener_runtime.telemetry import Telemetry


@pytest.mark.parametrize("executor", ["coroutine", "thread"])
async def test_a_handlers_spans_hang_under_its_attempt_and_it_may_speak_of_the_attempts_own(
    stage: Stage, executor: ExecutorName
) -> None:
    telemetry, agent, steps = Telemetry.in_memory("agent"), Agent(), InMemorySpanExporter()
    handlers = TracerProvider()
    handlers.add_span_processor(SimpleSpanProcessor(steps))

    async def traced() -> None:
        trace.get_current_span().set_attribute("rows", 3)
        with handlers.get_tracer("handler").start_as_current_span("step"):
            pass

    agent.job("traced", executor=executor)(traced)
    one = await stage.enter(agent, telemetry=telemetry)
    await stage.wait_for_event(AttemptSucceeded, await stage.dispatch("traced"))
    await one.drain()
    (attempt,), (step,) = telemetry.spans(), steps.get_finished_spans()
    context = attempt.get_span_context()
    assert context is not None
    assert step.parent is not None
    assert (step.parent.trace_id, step.parent.span_id) == (context.trace_id, context.span_id)
    assert attempt.attributes is not None
    assert (attempt.attributes["rows"], attempt.attributes["warrener.outcome"]) == (3, "succeeded")
