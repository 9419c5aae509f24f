"""The workflow of long_workflow.py: each start of a child is a line in a file, with its time."""

import os
import time

from warrener_agent import Agent, Workflow

agent = Agent()
_STARTS = os.open(os.environ["LONG_WORKFLOW_STARTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


@agent.job("step", dispatch_batch=1)
async def step(number: int) -> int:
    """Say when it was started."""
    os.write(_STARTS, b"%d %d\n" % (number, time.monotonic_ns()))
    return number


@agent.workflow("long")
async def long(flow: Workflow, steps: int) -> int:
    """Call so many steps one after another."""
    return sum([await flow.call(step, number=number) for number in range(steps)])
