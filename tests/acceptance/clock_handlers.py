"""Handlers of the tests of clocks that are wrong. Each run notes itself."""

import asyncio
from pathlib import Path

from warrener_agent import Agent, JobContext, RetryAfter

agent = Agent()


def note(job: JobContext) -> None:
    with Path("runs").open("a") as file:
        file.write(f"{job.job_id} {job.attempt}\n")


@agent.job("long", guarantee="exclusive", timeout="30s")
async def long(job: JobContext, seconds: float) -> int:
    note(job)
    await asyncio.sleep(seconds)
    return job.attempt


@agent.job("again", max_attempts=5)
async def again(job: JobContext) -> int | RetryAfter:
    note(job)
    if job.attempt == 1:
        return RetryAfter(6)
    return job.attempt
