"""Coroutines that take the event loop of their agent for themselves, and neighbours that only want to work.

Those that prove every 50 ms that they are at work note their runs.
"""

import asyncio
import os
import re
import time
from pathlib import Path
from typing import Literal

from tests.acceptance.run_notes import note_run

from warrener_agent import Agent, Backoff, JobContext

agent = Agent()
BEAT = 0.05
HOPELESS = "a" * 60 + "b"


@agent.job("neighbour", guarantee="transactional")
async def neighbour(job: JobContext, number: int) -> int:
    await asyncio.sleep(0.1)
    transaction = await job.transaction()
    await transaction.execute("INSERT INTO effects VALUES (:note)", {"note": str(number)})
    return number


@agent.job("hostile", backoff=Backoff.fixed(1, jitter=0), max_attempts=10, max_crashes=2)
async def hostile() -> None:
    spin()


def spin() -> None:
    while True:
        pass


def is_first() -> bool:
    return not Path("runs").exists()


@agent.job("slow", guarantee="exclusive")
async def slow(job: JobContext, how: Literal["waits", "computes"]) -> int:
    """The first run ends when the file `go` is there; any other one at once. `exclusive` has it announced
    before."""
    first = is_first()
    note_run(job)
    while first and not Path("go").exists():  # noqa: ASYNC240 - it blocks the loop on purpose
        if how == "waits":
            time.sleep(BEAT)  # noqa: ASYNC251 - a mistaken handler
        else:
            sum(range(200_000))
        note_run(job)
    note_run(job)
    return os.getpid()


@agent.job("seize")
async def seize(job: JobContext) -> int:
    """The first run calls into C, which keeps the interpreter's lock and never returns."""
    first = is_first()
    note_run(job)
    if first:
        re.match("(a+)+$", HOPELESS)
    note_run(job)
    return os.getpid()
