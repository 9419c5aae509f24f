"""Handlers that end what runs them, and one that only wants to work."""

import os
import signal
from pathlib import Path

from tests.acceptance.gate import pass_gate

from warrener_agent import Agent, Backoff, JobContext

agent = Agent()
SOON = Backoff.fixed(1, jitter=0)


@agent.job("good", queue="good")
async def good(number: int) -> int:
    return number


@agent.job("poison.executor", queue="good", executor="process", backoff=SOON, max_attempts=10, max_crashes=3)
def ends_its_executor(job: JobContext, gate: str) -> None:
    """Ends it at once, and from the third time on when the test says so."""
    if job.attempt >= 3:
        pass_gate(Path(gate))
    os.kill(os.getpid(), signal.SIGKILL)


@agent.job("poison.agent", queue="bad", backoff=SOON, max_crashes=2)
async def ends_its_agent() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
