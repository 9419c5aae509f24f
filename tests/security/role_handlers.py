"""Handlers of two agents with users of their own: a job that dies until it is mended, and a workflow."""

import asyncio
from pathlib import Path

from warrener_agent import Agent, Workflow

loads = Agent()
reports = Agent()


@loads.job("flights.load", queue="etl", max_attempts=1)
def load(number: int) -> int:
    if not Path("mended").exists():
        raise ValueError("expected 17 columns")
    return number


@loads.job("flights.wait", queue="etl")
async def wait() -> None:
    note("waiting")
    await asyncio.Event().wait()


def note(name: str) -> None:
    Path(name).touch()


@reports.workflow("reports.daily", queue="reports")
async def daily(flow: Workflow, number: int) -> int:
    """Load a file, on the other agent."""
    loaded = await flow.call(load, number=number)
    return int(loaded) + 1
