"""Handlers that block the event loop of their agent and prove every 50 ms that they are at work."""

import os
import re
import time
from pathlib import Path
from typing import Literal

from tests.acceptance.run_notes import note_run

from warrener_agent import Agent, JobContext

agent = Agent()
BEAT = 0.05
HOPELESS = "a" * 60 + "b"


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
