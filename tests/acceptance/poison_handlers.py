"""Handlers that end what runs them, and one that only wants to work."""

import os
import signal

from warrener_agent import Agent, Backoff

agent = Agent()
SOON = Backoff.fixed(1, jitter=0)


@agent.job("good", queue="good")
async def good(number: int) -> int:
    return number


@agent.job("poison.executor", queue="good", executor="process", backoff=SOON, max_attempts=10, max_crashes=3)
def ends_its_executor() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@agent.job("poison.agent", queue="bad", backoff=SOON, max_crashes=2)
async def ends_its_agent() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
