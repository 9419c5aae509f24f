"""Handlers of the tests of `warrener explain`: jobs that stop at each obstacle there is."""

import asyncio
from datetime import timedelta
from pathlib import Path

from tests.acceptance.gate import pass_gate

from warrener_agent import Agent, Backoff, JobContext, Snooze
from warrener_agent.executors import coroutine

agent = Agent()
narrow = Agent()
old = Agent()
new = Agent()


@agent.job("quick")
async def quick() -> int:
    return 1


@agent.job("needs")
async def needs(path: str) -> str:
    return path


@agent.job("fails", backoff=Backoff.fixed("30m", jitter=0))
async def fails() -> None:
    raise RuntimeError("not today")


@agent.job("dies", max_attempts=1)
async def dies() -> None:
    raise RuntimeError("never")


@agent.job("rests")
async def rests() -> None:
    raise Snooze(timedelta(minutes=20))


@agent.job("bill", depends_on="billing-api")
async def bill() -> None: ...


@agent.job("works")
async def works() -> None:
    await asyncio.Event().wait()


@agent.job("stubborn")
async def stubborn() -> None:
    """Cancelled, it cleans up for as long as its agent lets it: a minute, in which tests look at it."""
    coroutine.__dict__["_PATIENCE"] = 60.0
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.Event().wait()


@agent.job("gated")
def gated(gate: str) -> None:
    """It ends when the gate opens, not before: threads cannot be stopped."""
    pass_gate(Path(gate))


@narrow.job("narrow", queue="narrow")
async def stays() -> None:
    await asyncio.Event().wait()


@old.job("known", queue="shared")
async def known() -> None: ...


@new.job("added", queue="shared")
async def added(job: JobContext) -> str:
    return job.job_type
