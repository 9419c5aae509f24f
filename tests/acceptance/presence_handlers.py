"""Handlers of the tests of missing pieces: `long` notes its run and ends when the file `go` is there."""

import asyncio
from pathlib import Path

from warrener_agent import Agent, JobContext

agent = Agent()


@agent.job("long", queue="long")
async def long(job: JobContext) -> int:
    Path("runs").touch()  # noqa: ASYNC240 - a gate in another process
    while not Path("go").exists():  # noqa: ASYNC110, ASYNC240 - the same
        await asyncio.sleep(0.1)
    return job.attempt


@agent.job("quick", queue="quick")
async def quick() -> str:
    return "done"
