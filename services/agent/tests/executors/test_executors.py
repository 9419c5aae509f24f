"""Executors: what each provides to a handler, its trace included, and how it treats bad handlers."""

import asyncio
import logging
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from services.agent.tests.agent_handlers import agent as isolated
from services.agent.tests.agent_handlers import trace_of_handler
from services.agent.tests.processes import until_gone, until_written
from services.agent.tests.stage import LONG, WAIT, HastenedClock, Stage, dispatched

from warrener_agent import Agent, JobContext, Program
from warrener_agent.definitions.job import ExecutorName
from warrener_agent.ledger.port import Claim, Ledger
from warrener_agent.testing import run, temporary_ledger
from warrener_contracts.events import AttemptFailed, AttemptProgressed, AttemptSucceeded
from warrener_contracts.identity import attempt_span_id
from warrener_contracts.messages import build_message
from warrener_runtime.telemetry import Telemetry


async def no_effects(ledger: Ledger) -> bool:
    async with ledger.transaction(Claim(uuid4(), 1), agent_id="reader") as transaction:
        return await transaction.execute("SELECT 1 FROM sqlite_master WHERE name = 'effects'") == []


async def test_a_handler_has_transaction_child_jobs_and_progress_in_a_child_and_in_a_thread(
    agent: Agent,
) -> None:
    async with temporary_ledger() as ledger:
        child = await run(agent, "load", {"note": "x"}, ledger=ledger)
        async with ledger.transaction(Claim(uuid4(), 1), agent_id="reader") as transaction:
            rows = await transaction.execute("SELECT note FROM effects")
    assert [row["note"] for row in rows] == ["x", "x!"], "committed with its result"
    thread = await run(agent, "thread", {"note": "x"})
    assert (child.error, thread.error) == (None, None)
    assert (child.progress, thread.progress) == ([(0.5, "half")], [(1.0, "")])
    (requested,) = child.child_jobs
    assert requested.data.arguments == {"$type": "date", "value": "not ours to read"}
    assert child.result == {"asked": requested.id, "b": "2026-01-02", "$type": "date"}
    assert thread.result.startswith("thread ")
    assert [one.data.job_type for one in thread.child_jobs] == ["other"]
    assert (await run(agent, "waits", attempt=3)).result == 3, "an async handler runs in a child too"
    assert (await run(agent, "load", {"note": "caught"})).result == {"caught": "no such table: nowhere"}


async def test_an_exception_in_a_child_has_its_type_and_stack_and_undoes_all(agent: Agent) -> None:
    async with temporary_ledger() as ledger:
        trial = await run(agent, "load", {"note": "raise"}, ledger=ledger)
        assert trial.error is not None
        assert (trial.error.type, trial.error.retryable) == ("KeyError", False)
        assert "in load" in (trial.error.stack or "")
        assert await no_effects(ledger)


async def test_a_child_dies_with_its_agent(agent: Agent, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"""
import asyncio, sys
sys.path[:0] = {sys.path!r}
from warrener_agent.__main__ import load_agents
from warrener_agent.testing import run
asyncio.run(run(load_agents(["agent_handlers"]), "forks", {{"pids": {str(pids)!r}}}))
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    await until_written(pids, 3)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    await until_gone(map(int, pids.read_text().split()))


async def test_a_thread_that_does_not_end_is_abandoned_and_keeps_its_slot(stage: Stage, agent: Agent) -> None:
    clock = HastenedClock()
    await stage.enter(agent, agent_slots=1, clock=clock, agent_claim_ttl=3600.0)
    job = await stage.dispatch("blocks", timeout=LONG)
    await stage.wait_for_event(AttemptProgressed, job)
    clock.skip(LONG)
    assert (await stage.wait_for_event(AttemptFailed, job)).data.error.kind == "timeout"
    waiting = await stage.dispatch("thread", {"note": "after"})
    sys.modules["agent_handlers"].release.set()
    assert (await stage.wait_for_event(AttemptSucceeded, waiting)).data.job_id == waiting
    assert await stage.effects() == ["after"], "the abandoned one could not write any more"
    assert not stage.of(AttemptSucceeded, job)


async def test_child_jobs_without_a_key_differ_and_what_no_coroutine_may_do_is_refused() -> None:
    agent = Agent()

    @agent.job("fan")
    async def fan(job: JobContext) -> list[str]:
        options: list[dict[str, Any]] = [{}, {"delay": "1m"}, {"queue": "q"}]
        made = [str(job.request("x.y", **one)) for one in options]
        job.request("a", key="k")
        with pytest.raises(RuntimeError, match="would stop the whole agent"):
            job.transaction_sync().execute("SELECT 1")
        with pytest.raises(ValueError, match="twice"):
            job.request("b", key="k")
        with pytest.raises(ValueError, match="can be made"):
            job.request("no blanks")
        with pytest.raises(ValueError, match="1048576"):
            job.request("x.y", {"data": "x" * 1_100_000})
        return made

    job_id = uuid4()
    first, second = [await run(agent, "fan", job_id=job_id) for _ in range(2)]
    assert first.succeeded, first.error
    assert first.result == second.result
    assert len(set(first.result)) == 3
    assert [one.id for one in first.child_jobs][:3] == first.result
    assert first.child_jobs[1].data.delay == timedelta(minutes=1)
    assert first.child_jobs[2].data.queue == "q"


# -- the flight record of what shares the agent's process (issue 4) -------------------------------------


_log = logging.getLogger("shop.handlers")


async def test_a_coroutine_that_hangs_leaves_the_stacks_of_its_tasks_its_last_lines_and_its_progress(
    stage: Stage,
) -> None:
    agent, clock, begun = Agent(), HastenedClock(), asyncio.Semaphore(0)

    async def waits_for_the_bank() -> None:
        _log.warning("asking the bank at https://shop:secret@bank/")
        begun.release()
        await asyncio.Event().wait()

    @agent.job("pay")
    async def pay(job: JobContext) -> None:
        job.progress(0.5, "half paid")
        async with asyncio.TaskGroup() as group:
            group.create_task(waits_for_the_bank(), name="bank")

    @agent.job("other")
    async def other() -> None:
        _log.warning("a line of somebody else")
        begun.release()
        await asyncio.Event().wait()

    await stage.enter(agent, agent_announce_delay=0.0, clock=clock, agent_claim_ttl=3600.0)
    neighbour = await stage.dispatch("other", timeout=2 * LONG)
    job = await stage.dispatch("pay", timeout=LONG)
    async with asyncio.timeout(WAIT):
        await begun.acquire()
        await begun.acquire()
    clock.skip(LONG)
    record = (await stage.wait_for_event(AttemptFailed, job)).data.error.flight_record
    assert record is not None
    stacks, log = record.stacks or "", record.log or ""
    assert "in pay" in stacks
    assert "Task bank" in stacks
    assert "in waits_for_the_bank" in stacks
    assert "in other" not in stacks, "each attempt is told of alone"
    assert "asking the bank at https://shop:***@bank/" in log, "and passwords are not"
    assert "somebody else" not in log
    assert (record.progress, record.progress_note) == (0.5, "half paid")
    assert not stage.of(AttemptFailed, neighbour)


async def test_a_thread_that_hangs_leaves_its_stack_and_what_it_has_used(stage: Stage) -> None:
    agent, clock, gate, has_used = Agent(), HastenedClock(), threading.Event(), threading.Event()

    @agent.job("scan")
    def scan() -> None:
        _log.warning("scanning")
        while not gate.wait(0.001):
            sum(range(1000))
            if time.thread_time() > 0.1:  # ten ticks, by which the kernel counts
                has_used.set()

    await stage.enter(agent, clock=clock, agent_claim_ttl=3600.0)
    try:
        job = await stage.dispatch("scan", timeout=LONG)
        assert await asyncio.to_thread(has_used.wait, WAIT)
        clock.skip(LONG)
        record = (await stage.wait_for_event(AttemptFailed, job)).data.error.flight_record
        assert record is not None
        assert "in scan" in (record.stacks or "")
        assert "scanning" in (record.log or "")
        assert record.cpu_seconds is not None
        assert 0 < record.cpu_seconds < 5, "of the thread alone"
    finally:
        gate.set()


# -- the trace goes on in whatever runs a handler -------------------------------------------------------


TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
CALLER = f"00-{TRACE_ID}-b7ad6b7169203331-01"
UNSAMPLED = f"00-{TRACE_ID}-b7ad6b7169203331-00"


async def result_of(
    stage: Stage, agent: Agent, job_type: str, *, trace: str = CALLER, telemetry: Telemetry | None = None
) -> tuple[str, list[str | None]]:
    await stage.enter(agent, telemetry=telemetry)
    context = {"traceparent": trace, "tracestate": "vendor=1", "baggage": "tenant=acme"}
    await stage.bus.publish([build_message(dispatched(job_type).model_copy(update=context))])
    ended = (await stage.wait_for_event(AttemptSucceeded)).data
    return attempt_span_id(ended.job_id, 1, ended.agent_id), ended.result


@pytest.mark.parametrize(("executor", "is_async"), [("coroutine", True), ("thread", True), ("thread", False)])
async def test_a_handler_in_the_agent_is_in_the_span_of_its_attempt_and_may_add_to_it(
    stage: Stage, executor: ExecutorName, *, is_async: bool
) -> None:
    agent, telemetry = Agent(), Telemetry.in_memory("agent")
    steps, handlers = InMemorySpanExporter(), TracerProvider()
    handlers.add_span_processor(SimpleSpanProcessor(steps))

    def traced() -> list[str | None]:
        trace.get_current_span().set_attribute("rows", 3)
        with handlers.get_tracer("handler").start_as_current_span("step"):
            pass
        return trace_of_handler()

    async def traced_async() -> list[str | None]:
        return traced()

    agent.job("traced", executor=executor)(traced_async if is_async else traced)
    span_id, found = await result_of(stage, agent, "traced", telemetry=telemetry)
    assert found[:2] == [span_id, "acme"]
    await stage.running[-1][0].drain()
    attempt = next(span for span in telemetry.spans() if span.name == "attempt traced")
    assert attempt.attributes is not None
    assert (attempt.attributes["rows"], attempt.attributes["warrener.outcome"]) == (3, "succeeded")
    (step,) = steps.get_finished_spans()
    assert step.parent is not None
    assert (f"{step.parent.trace_id:032x}", f"{step.parent.span_id:016x}") == (TRACE_ID, span_id)


@pytest.mark.parametrize("job_type", ["traced_child", "traced_async_child"])
async def test_a_child_process_goes_on_with_the_trace_of_its_attempt(stage: Stage, job_type: str) -> None:
    telemetry = Telemetry.in_memory("agent")
    span_id, found = await result_of(stage, isolated, job_type, telemetry=telemetry)
    assert found == [span_id, "acme", f"00-{TRACE_ID}-{span_id}-01", "tenant=acme"]


@pytest.mark.parametrize("trace", [CALLER, UNSAMPLED])
async def test_without_telemetry_a_child_process_goes_on_with_the_trace_of_the_caller(
    stage: Stage, trace: str
) -> None:
    _, found = await result_of(stage, isolated, "traced_child", trace=trace)
    assert found == [trace.split("-")[2], "acme", trace, "tenant=acme"]


async def test_a_program_gets_the_trace_of_its_attempt_in_its_environment(stage: Stage) -> None:
    agent, telemetry = Agent(), Telemetry.in_memory("agent")
    agent.command("traced", Program(["env"]))
    span_id, found = await result_of(stage, agent, "traced", telemetry=telemetry)
    wanted = {f"TRACEPARENT=00-{TRACE_ID}-{span_id}-01", "BAGGAGE=tenant=acme", "TRACESTATE=vendor=1"}
    assert wanted <= set(str(found).splitlines()), found
