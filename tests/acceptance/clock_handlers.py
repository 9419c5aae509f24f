"""Handlers of the tests of clocks that are wrong. Each run notes itself."""

import asyncio

from tests.acceptance.run_notes import note_run

from warrener_agent import Agent, JobContext, RetryAfter

agent = Agent()


@agent.job("long", guarantee="exclusive", timeout="30s")
async def long(job: JobContext, seconds: float) -> int:
    note_run(job)
    await asyncio.sleep(seconds)
    return job.attempt


@agent.job("again", max_attempts=5)
async def again(job: JobContext) -> int | RetryAfter:
    note_run(job)
    if job.attempt == 1:
        return RetryAfter(6)
    return job.attempt
