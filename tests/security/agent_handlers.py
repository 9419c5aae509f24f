"""Handlers of an agent that others would like to replace: a payment waits for the file `go`."""

import asyncio
from pathlib import Path

from warrener_agent import Agent, JobContext

agent = Agent()


def is_open() -> bool:
    return Path("go").exists()


@agent.job("pay", queue="payments")
async def pay(job: JobContext, invoice: int) -> int:
    while not is_open():  # noqa: ASYNC110 - a gate in another process
        await asyncio.sleep(0.1)
    return invoice


@agent.job("quote", queue="quotes")
async def quote(job: JobContext, invoice: int) -> int:
    return invoice
