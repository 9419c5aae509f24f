"""Handlers of the retry tests, in agents of their own processes. Each run notes itself first."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from warrener_agent import Agent, Backoff, JobContext, RetryAfter

agent = Agent()


def note(job: JobContext) -> int:
    """How often the job has run before."""
    file = Path("runs") / str(job.job_id)
    file.parent.mkdir(exist_ok=True)
    before = len(file.read_text().splitlines()) if file.exists() else 0
    with file.open("a") as out:
        line = {"attempt": job.attempt, "at": datetime.now(UTC).isoformat(), "pid": os.getpid()}
        out.write(json.dumps(line) + "\n")
    return before


class Shaky(OSError):
    """May be mended by another attempt."""


@agent.job("shaky", backoff=Backoff.fixed("15s", jitter=0))
def shaky(job: JobContext, failures: int = 1) -> int:
    before = note(job)
    if before < failures:
        raise Shaky(f"run {before + 1} of {failures + 1}")
    return before


@agent.job("later")
def later(job: JobContext, delay: str) -> int | RetryAfter:
    before = note(job)
    return before if before else RetryAfter(delay, "closed until then")
