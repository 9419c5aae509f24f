"""Handlers of the tests of timeouts, in agents of their own processes. Each run notes itself first."""

import asyncio
import os
import time
from pathlib import Path

from warrener_agent import Agent, Backoff, JobContext

agent = Agent()


def note(job: JobContext) -> None:
    with Path("runs").open("a") as file:
        file.write(f"{job.job_id} {job.attempt} {os.getpid()} {time.time():.3f}\n")


@agent.job("spins", executor="process", timeout="15s", backoff=Backoff.fixed(1, jitter=0))
def spins(job: JobContext) -> int:
    note(job)
    while job.attempt == 1:
        pass
    return job.attempt


@agent.job("waits")
async def waits(job: JobContext) -> int:
    note(job)
    if job.attempt == 1:
        await asyncio.Event().wait()
    return job.attempt


@agent.job(
    "falls_silent",
    executor="process",
    heartbeat_timeout="12s",
    timeout="10m",
    backoff=Backoff.fixed(1, jitter=0),
)
def falls_silent(job: JobContext) -> int:
    note(job)
    if job.attempt > 1:
        return job.attempt
    until = time.monotonic() + 14
    while time.monotonic() < until:  # longer than the silence that it may keep
        job.alive()
    Path("fell-silent").touch()
    while True:
        pass


@agent.job("begins")
async def begins(job: JobContext) -> int:
    note(job)
    return job.attempt
