"""Executors: what each provides to a handler, and what it does with a handler that misbehaves."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from services.agent.tests.processes import gone, until_written
from services.agent.tests.stage import LONG, HastenedClock, Stage

from warrener_agent import Agent, JobContext
from warrener_agent.ledger import Claim, Ledger
from warrener_agent.testing import run, temporary_ledger
from warrener_contracts.events import AttemptFailed, AttemptProgressed, AttemptSucceeded, JobRequested


@pytest.fixture
def agent(load_handlers: Callable[[str], Agent]) -> Iterator[Agent]:
    yield load_handlers("agent_handlers")
    sys.modules["agent_handlers"].release.set()


async def no_effects(ledger: Ledger) -> bool:
    async with ledger.transaction(Claim(uuid4(), 1), agent_id="reader") as transaction:
        return await transaction.execute("SELECT 1 FROM sqlite_master WHERE name = 'effects'") == []


async def test_a_child_process_is_another_process_and_stays_warm(stage: Stage, agent: Agent) -> None:
    await stage.enter(agent, agent_slots=1)
    results = [(await stage.succeed("where", {"name": name})).result for name in ("a", "b")]
    assert results[0]["pid"] == results[1]["pid"] != os.getpid()
    assert [one["calls"] for one in results] == [1, 2]


async def test_a_child_has_transaction_child_jobs_and_progress(agent: Agent) -> None:
    trial = await run(agent, "load", {"note": "x"})
    assert trial.succeeded, trial.error
    assert trial.progress == [(0.5, "half")]
    (child_job,) = trial.child_jobs
    assert child_job.data.arguments == {"$type": "date", "value": "not ours to read"}
    assert trial.result == {"asked": child_job.id, "b": "2026-01-02", "$type": "date"}


async def test_an_async_handler_runs_in_a_child_too(agent: Agent) -> None:
    assert (await run(agent, "waits", attempt=3)).result == 3


async def test_errors_of_statements_can_be_caught_in_a_child(agent: Agent) -> None:
    trial = await run(agent, "load", {"note": "caught"})
    assert trial.result == {"caught": "no such table: nowhere"}


async def test_an_exception_in_a_child_has_its_type_and_stack_and_undoes_all(agent: Agent) -> None:
    async with temporary_ledger() as ledger:
        trial = await run(agent, "load", {"note": "raise"}, ledger=ledger)
        assert trial.error is not None
        assert (trial.error.type, trial.error.retryable) == ("KeyError", False)
        assert "in load" in (trial.error.stack or "")
        assert await no_effects(ledger)


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [("segfault", "crash", "SIGSEGV"), ("exit", "crash", "exit code 7"), ("polite", "error", "polite")],
)
async def test_g4_each_crash_of_a_child_has_its_error_type_and_undoes_all(
    agent: Agent, how: str, kind: str, message: str
) -> None:
    async with temporary_ledger() as ledger:
        trial = await run(agent, "dies", {"how": how}, ledger=ledger)
        assert trial.error is not None
        assert trial.error.kind == kind
        assert trial.error.retryable
        assert message in trial.error.message
        assert await no_effects(ledger)


async def test_a_child_dies_with_its_agent(agent: Agent, tmp_path: Path) -> None:
    """kill -9 of an agent leaves no handler behind that works on."""
    pids = tmp_path / "pids"
    script = f"""
import asyncio, sys
sys.path[:0] = {sys.path!r}
from warrener_agent.__main__ import load_agents
from warrener_agent.testing import run
asyncio.run(run(load_agents(["agent_handlers"]), "hangs", {{"pids": {str(pids)!r}}}))
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    await until_written(pids, 2)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    assert await gone(map(int, pids.read_text().split()))


async def test_a_thread_has_transaction_child_jobs_and_progress(agent: Agent) -> None:
    trial = await run(agent, "thread", {"note": "x"})
    assert trial.succeeded, trial.error
    assert trial.result.startswith("thread ")
    assert trial.progress == [(1.0, "")]
    assert [one.data.job_type for one in trial.child_jobs] == ["other"]


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


async def test_a_blocking_transaction_is_refused_in_a_coroutine() -> None:
    agent = Agent()

    @agent.job("wrong")
    async def wrong(job: JobContext) -> None:
        job.transaction_sync().execute("SELECT 1")

    trial = await run(agent, "wrong")
    assert trial.error is not None
    assert "would stop the whole agent" in trial.error.message


async def test_child_jobs_without_a_key_differ_and_the_same_key_twice_is_refused() -> None:
    agent = Agent()

    @agent.job("fan")
    async def fan(job: JobContext) -> list[str]:
        made = [
            str(job.request("x.y")),
            str(job.request("x.y", delay="1m")),
            str(job.request("x.z", queue="q")),
        ]
        job.request("a", key="k")
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


async def test_in_a_real_agent_all_of_it_comes_out(stage: Stage, agent: Agent) -> None:
    await stage.enter(agent)
    job = await stage.dispatch("load", {"note": "x"})
    await stage.wait_for_event(AttemptSucceeded, job)
    assert (await stage.wait_for_event(AttemptProgressed, job)).data.note == "half"
    assert (await stage.wait_for_event(JobRequested)).data.parent_id == job
    assert await stage.effects() == ["x", "x!"]
