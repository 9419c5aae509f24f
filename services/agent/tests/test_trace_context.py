"""Handlers in other processes receive the trace context of their attempt."""

import sys
from pathlib import Path

import pytest
from services.agent.tests.stage import Stage

from warrener_agent import Agent, Program
from warrener_agent.__main__ import load_agents
from warrener_contracts.events import AttemptSucceeded
from warrener_contracts.messages import build_message
from warrener_runtime.telemetry import Telemetry

TRACE_ID, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def agent_of_processes() -> Agent:
    agent = load_agents(["agent_handlers"])
    agent.command("prints", Program(["sh", "-c", "echo $TRACEPARENT $TRACESTATE"]))
    return agent


async def result_under_a_caller(stage: Stage, job_type: str) -> str:
    event = stage.dispatched(job_type)
    traced = event.model_copy(update={"traceparent": f"00-{TRACE_ID}-{CALLER}-01", "tracestate": "vendor=1"})
    await stage.bus.publish([build_message(traced)])
    return str((await stage.wait_for_event(AttemptSucceeded, event.data.job_id)).data.result)


@pytest.mark.parametrize("traces", [True, False])
async def test_spans_of_another_process_hang_under_the_attempt_or_its_caller(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, *, traces: bool
) -> None:
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parent), *sys.path])
    monkeypatch.setenv("TRACEPARENT", "of the agent, not of the attempt")
    telemetry = Telemetry.in_memory("agent") if traces else Telemetry.disabled()
    one = await stage.enter(agent_of_processes(), telemetry=telemetry)
    of_handler = await result_under_a_caller(stage, "traces")
    of_program = await result_under_a_caller(stage, "prints")
    await one.drain()
    attempts = [span for span in telemetry.spans() if span.name.startswith("attempt")] if traces else []
    contexts = [context for span in attempts if (context := span.get_span_context())]
    spans = [f"{context.span_id:016x}" for context in contexts] or [CALLER, CALLER]
    assert of_handler == f"{TRACE_ID} {spans[0]} True"
    assert of_program == f"00-{TRACE_ID}-{spans[1]}-01 vendor=1\n"
