"""A coroutine that takes the event loop of its agent for itself, and neighbours that only want to work."""

import asyncio

from warrener_agent import Agent, Backoff, JobContext

agent = Agent()


@agent.job("neighbour", guarantee="transactional")
async def neighbour(job: JobContext, number: int) -> int:
    await asyncio.sleep(0.1)
    transaction = await job.transaction()
    await transaction.execute("INSERT INTO effects VALUES (:note)", {"note": str(number)})
    return number


@agent.job("hostile", backoff=Backoff.fixed(1, jitter=0), max_attempts=10, max_crashes=2)
async def hostile() -> None:
    spin()


def spin() -> None:
    while True:
        pass
