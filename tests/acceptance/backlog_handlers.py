"""Handlers of the tests of backlogs, in two queues. Each run notes itself."""

import asyncio
from pathlib import Path

from warrener_agent import Agent, JobContext

agent = Agent()


def _note(job: JobContext) -> None:
    with Path("runs").open("a") as file:
        file.write(f"{job.job_id} {job.attempt}\n")


@agent.job("purged", queue="purged")
async def purged(job: JobContext) -> None:
    _note(job)


@agent.job("deleted", queue="deleted")
async def deleted(job: JobContext) -> None:
    _note(job)


@agent.job("fails", queue="fails", max_attempts=1)
async def fails(job: JobContext) -> None:
    _note(job)
    await asyncio.sleep(0.15)
    raise RuntimeError("never")
