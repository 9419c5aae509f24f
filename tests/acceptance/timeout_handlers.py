"""Handlers of the tests of timeouts, in agents of their own processes. Each run notes itself first."""

import asyncio
import time
from pathlib import Path

from tests.acceptance.run_notes import note_run

from warrener_agent import Agent, Backoff, JobContext

agent, unwatched = Agent(), Agent()


@unwatched.job(
    "spins", queue="unwatched", executor="process", timeout="15s", backoff=Backoff.fixed(1, jitter=0)
)
def spins(job: JobContext) -> int:
    note_run(job)
    while job.attempt == 1:
        pass
    return job.attempt


@agent.job("waits")
async def waits(job: JobContext) -> None:
    note_run(job)
    await asyncio.Event().wait()


@agent.job(
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
