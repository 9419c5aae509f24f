"""A handler that ends when a gate is opened, and handlers that end in no time that anybody would wait for."""

import asyncio
import time
from pathlib import Path

from tests.acceptance.gate import pass_gate

from warrener_agent import Agent, JobContext

agent = Agent()


@agent.job("ends.soon")
def ends_soon(job: JobContext, gate: Path) -> int:
    pass_gate(gate)
    return job.attempt


@agent.job("ends.late")
async def ends_late(job: JobContext) -> int:
    if job.attempt == 1:
        await asyncio.Event().wait()
    return job.attempt


@agent.job("ends.late.process", executor="process")
def ends_late_in_a_process(job: JobContext) -> int:
    if job.attempt == 1:
        time.sleep(600)
    return job.attempt
