"""Whatever runs a handler, its trace goes on in it: spans, baggage, and the processes that it starts."""

import json

import pytest
from services.agent.tests.isolation_handlers import agent as isolated
from services.agent.tests.isolation_handlers import trace_of_handler
from services.agent.tests.stage import Stage

from warrener_agent import Agent, Program
from warrener_contracts.events import AttemptSucceeded
from warrener_contracts.identity import attempt_span_id
from warrener_contracts.messages import build_message
from warrener_runtime.telemetry import Telemetry

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
CALLER = f"00-{TRACE_ID}-b7ad6b7169203331-01"
UNSAMPLED = f"00-{TRACE_ID}-b7ad6b7169203331-00"


async def result_of(
    stage: Stage,
    agent: Agent,
    job_type: str,
    *,
    traceparent: str = CALLER,
    telemetry: Telemetry | None = None,
) -> tuple[AttemptSucceeded, list[str | None]]:
    await stage.enter(agent, telemetry=telemetry)
    trace = {"traceparent": traceparent, "tracestate": "vendor=1", "baggage": "tenant=acme"}
    event = stage.dispatched(job_type).model_copy(update=trace)
    await stage.bus.publish([build_message(event)])
    ended = await stage.wait_for_event(AttemptSucceeded, event.data.job_id)
    return ended, ended.data.result


@pytest.mark.parametrize("executor", ["coroutine", "thread"])
async def test_a_handler_in_the_agent_is_in_the_span_of_its_attempt(stage: Stage, executor: str) -> None:
    agent, telemetry = Agent(), Telemetry.in_memory("agent")
    if executor == "thread":
        agent.job("traced")(trace_of_handler)
    else:

        async def traced() -> list[str | None]:
            return trace_of_handler()

        agent.job("traced")(traced)
    ended, (span_id, tenant, *_) = await result_of(stage, agent, "traced", telemetry=telemetry)
    assert span_id == attempt_span_id(ended.data.job_id, 1, ended.data.agent_id)
    assert tenant == "acme"


@pytest.mark.parametrize("job_type", ["traced_child", "traced_async_child"])
async def test_a_child_process_goes_on_with_the_trace_of_its_attempt(stage: Stage, job_type: str) -> None:
    telemetry = Telemetry.in_memory("agent")
    ended, (span_id, *others) = await result_of(stage, isolated, job_type, telemetry=telemetry)
    expected = attempt_span_id(ended.data.job_id, 1, ended.data.agent_id)
    assert span_id == expected
    assert others == ["acme", f"00-{TRACE_ID}-{expected}-01", "tenant=acme"]


@pytest.mark.parametrize("traceparent", [CALLER, UNSAMPLED])
async def test_without_telemetry_a_child_process_goes_on_with_the_trace_of_the_caller(
    stage: Stage, traceparent: str
) -> None:
    _, found = await result_of(stage, isolated, "traced_child", traceparent=traceparent)
    assert found == [traceparent.split("-")[2], "acme", traceparent, "tenant=acme"]


async def test_a_program_gets_the_trace_of_its_attempt_in_its_environment(stage: Stage) -> None:
    agent, telemetry = Agent(), Telemetry.in_memory("agent")
    agent.command("traced", Program(["env"]))
    ended, _ = await result_of(stage, agent, "traced", telemetry=telemetry)
    expected = attempt_span_id(ended.data.job_id, 1, ended.data.agent_id)
    lines = str(ended.data.result).splitlines()
    assert f"TRACEPARENT=00-{TRACE_ID}-{expected}-01" in lines, json.dumps(lines)
    assert "BAGGAGE=tenant=acme" in lines
    assert "TRACESTATE=vendor=1" in lines
