"""Handlers of the tests of broken connections. Those of the agent with GATE wait until the file it names is
there: `long` before it ends, `written` between its statement and its commit."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path

from warrener_agent import Agent, JobContext

agent = Agent()


def closed() -> bool:
    return "GATE" in os.environ and not Path(os.environ["GATE"]).exists()


def began(name: str) -> None:
    Path(f"began-{name}").touch()


async def gate() -> None:
    while closed():  # noqa: ASYNC110 - another process opens it
        await asyncio.sleep(0.05)


@agent.job("written", guarantee="transactional", queue="written", timeout=timedelta(seconds=8))
async def written(job: JobContext) -> int:
    transaction = await job.transaction()
    await transaction.execute("INSERT INTO effects VALUES (:note)", {"note": str(job.job_id)})
    began(str(job.job_id))
    await gate()
    return os.getpid()


@agent.job("long", queue="long")
async def long(job: JobContext) -> int:
    began(f"{job.job_id}-{job.attempt}")
    await gate()
    return os.getpid()


@agent.job("tick", queue="long")
async def tick() -> None: ...
