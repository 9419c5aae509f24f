"""Handlers of the tests of lost agents. Each long run notes itself first; in the agent that is to be lost, it
waits until the file `go` is there."""

import asyncio
import os
from pathlib import Path

from tests.acceptance.run_notes import note_run

from warrener_agent import Agent, JobContext

agent = Agent()


def waits() -> bool:
    return "WAITS" in os.environ and not Path("go").exists()


async def keep(job: JobContext, text: str) -> None:
    transaction = await job.transaction()
    await transaction.execute("INSERT INTO effects VALUES (:note)", {"note": text})


@agent.job("long", guarantee="transactional", queue="long")
async def long(job: JobContext) -> int:
    note_run(job)
    while waits():  # noqa: ASYNC110 - a gate for a hundred at once, in a process that may be frozen
        await asyncio.sleep(0.1)
    await keep(job, str(job.job_id))
    return os.getpid()


@agent.job("quick", guarantee="transactional", queue="quick")
async def quick(job: JobContext) -> int:
    await keep(job, str(job.job_id))
    return os.getpid()
