"""The jobs, as Warrener's agents load them."""

import os

from tools.benchmarks.stamp import stamp

from warrener_agent import Agent

agent = Agent()


@agent.job("noop", dispatch_batch=int(os.environ["JOBS_A_MESSAGE"]))
async def noop(payload: str) -> int:
    """Nothing."""
    return len(payload)


@agent.job("stamped")
async def stamped() -> None:
    """Say when it began."""
    stamp()
