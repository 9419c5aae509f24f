"""Handlers that agents of this release and of the one before it run; they use what both have."""

import asyncio
from datetime import timedelta

from warrener_agent import Agent, Backoff, JobContext

agent = Agent()
SOON = Backoff.fixed(0.2)


@agent.job("upgrade.quick")
async def quick(number: int) -> int:
    return number


@agent.job("upgrade.flaky", backoff=SOON, max_attempts=3)
async def flaky(number: int, job: JobContext) -> int:
    if job.attempt == 1:
        raise ConnectionError("not this time")
    return number


@agent.job("upgrade.doomed", backoff=SOON, max_attempts=2)
async def doomed(number: int) -> int:
    raise ValueError(f"{number} is doomed")


@agent.job("upgrade.written", guarantee="transactional", timeout=timedelta(seconds=20))
async def written(number: int, job: JobContext) -> int:
    transaction = await job.transaction()
    await transaction.execute("INSERT INTO effects VALUES (:note)", {"note": str(job.job_id)})
    return number


@agent.job("upgrade.long")
async def long(number: int, job: JobContext) -> int:
    for step in range(5):
        job.progress(step / 5)
        await asyncio.sleep(0.3)
    return number


@agent.job("upgrade.endless")
async def endless(number: int) -> int:
    await asyncio.sleep(3600)
    return number
