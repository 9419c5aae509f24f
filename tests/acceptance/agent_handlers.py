"""Handlers of the tests of agents, of one `Agent` each: those that drain, log, and run too long."""

import asyncio
import logging
import time
from pathlib import Path

from tests.acceptance.gate import pass_gate
from tests.acceptance.run_notes import note_run

from warrener_agent import Agent, Backoff, JobContext

drained, logged, timed, unwatched = Agent(), Agent(), Agent(), Agent()
_log = logging.getLogger("shop.jobs")

# -- one ends when a gate is opened, the others in no time that anybody would wait for ---------------------


@drained.job("ends.soon")
def ends_soon(job: JobContext, gate: Path) -> int:
    pass_gate(gate)
    return job.attempt


@drained.job("ends.late")
async def ends_late(job: JobContext) -> int:
    if job.attempt == 1:
        await asyncio.Event().wait()
    return job.attempt


@drained.job("ends.late.process", executor="process")
def ends_late_in_a_process(job: JobContext) -> int:
    if job.attempt == 1:
        time.sleep(600)
    return job.attempt


# -- they log ----------------------------------------------------------------------------------------------


@logged.job("logs.waits")
def waits_at_the_gate(gate: Path) -> None:
    _log.info("waiting")
    pass_gate(gate)
    _log.info("the gate is open")
    pass_gate(gate)


@logged.job("logs.hangs", max_attempts=1)
def hangs() -> None:
    _log.info("before the end")
    while True:
        time.sleep(60)  # the fault: its agent is killed


# -- they run too long; each run notes itself first --------------------------------------------------------


@unwatched.job(
    "spins", queue="unwatched", executor="process", timeout="15s", backoff=Backoff.fixed(1, jitter=0)
)
def spins(job: JobContext) -> int:
    note_run(job)
    while job.attempt == 1:
        pass
    return job.attempt


@timed.job("waits")
async def waits(job: JobContext) -> None:
    note_run(job)
    await asyncio.Event().wait()


@timed.job(
    "falls_silent",
    executor="process",
    heartbeat_timeout="12s",
    timeout="10m",
    backoff=Backoff.fixed(1, jitter=0),
)
def falls_silent(job: JobContext) -> int:
    note_run(job)
    if job.attempt > 1:
        return job.attempt
    until = time.monotonic() + 14
    while time.monotonic() < until:  # longer than the silence that it may keep
        job.alive()
    Path("fell-silent").touch()
    while True:
        pass
