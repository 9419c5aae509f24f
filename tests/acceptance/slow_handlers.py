"""Handlers that block the event loop of their agent and prove every 50 ms that they are at work."""

import os
import re
import time
from pathlib import Path
from typing import Literal

from warrener_agent import Agent, JobContext

agent = Agent()
BEAT = 0.05
HOPELESS = "a" * 60 + "b"


def is_first() -> bool:
    return not Path("runs").exists()


def note(job: JobContext, what: str) -> None:
    with Path("runs").open("a") as file:
        file.write(f"{job.job_id} {job.attempt} {os.getpid()} {what} {time.time():.3f}\n")


@agent.job("slow", guarantee="exclusive")
async def slow(job: JobContext, how: Literal["waits", "computes"]) -> int:
    """The first run ends when the file `go` is there; any other one at once. `exclusive` has it announced
    before."""
    first = is_first()
    note(job, "began")
    while first and not Path("go").exists():  # noqa: ASYNC240 - it blocks the loop on purpose
        if how == "waits":
            time.sleep(BEAT)  # noqa: ASYNC251 - a mistaken handler
        else:
            sum(range(200_000))
        note(job, "works")
    note(job, "ended")
    return os.getpid()


@agent.job("seize")
async def seize(job: JobContext) -> int:
    """The first run calls into C, which keeps the interpreter's lock and never returns."""
    first = is_first()
    note(job, "began")
    if first:
        re.match("(a+)+$", HOPELESS)
    note(job, "ended")
    return os.getpid()
