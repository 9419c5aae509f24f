"""Handlers of the tests of missing pieces and of a frozen supervisor: `long` notes its run and ends when the
file `go` is there."""

import asyncio
from pathlib import Path

from tests.acceptance.run_notes import note_run

from warrener_agent import Agent, JobContext

agent = Agent()


@agent.job("long", queue="long")
@agent.job("exclusive", guarantee="exclusive")
async def long(job: JobContext) -> int:
    note_run(job)
    while not Path("go").exists():  # noqa: ASYNC110, ASYNC240 - a gate in another process
        await asyncio.sleep(0.1)
    return job.attempt


@agent.job("quick", queue="quick")
async def quick() -> str:
    return "done"
