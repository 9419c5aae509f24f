"""One job type that greets, one that takes its time."""

import asyncio

from pydantic import BaseModel

from warrener_agent import Agent, JobContext

agent = Agent()


class Greeting(BaseModel):
    """What `greetings.greet` returns."""

    text: str
    attempt: int


@agent.job("greetings.greet")
async def greet(job: JobContext, name: str) -> Greeting:
    """Say hello."""
    return Greeting(text=f"Hello, {name}!", attempt=job.attempt)


@agent.job("greetings.ponder", timeout="2m")
async def ponder(job: JobContext, seconds: float) -> Greeting:
    """Think about it for a while, and say how far the thought has come."""
    for step in range(10):
        job.progress(step / 10, "pondering")
        await asyncio.sleep(seconds / 10)
    return Greeting(text="42", attempt=job.attempt)
