"""The flight record of coroutines and threads, which share the agent's process (issue 4)."""

import asyncio
import logging
import threading
import time

from services.agent.tests.stage import LONG, WAIT, HastenedClock, Stage

from warrener_agent import Agent, JobContext
from warrener_contracts.events import AttemptFailed

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
