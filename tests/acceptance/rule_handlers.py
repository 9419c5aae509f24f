"""Handlers of the tests of schedules' rules."""

import asyncio

from warrener_agent import Agent

agent = Agent()


@agent.job("nap")
async def nap() -> None:
    """Longer than the second that lies between two ticks."""
    await asyncio.sleep(1.5)
