"""Handlers of the retry tests, in agents of their own processes. Each run notes itself first."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from warrener_agent import Agent, Backoff, Cancel, Fail, JobContext, RetryAfter, Snooze

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


class Broken(Shaky):
    """May not."""


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


@agent.job("named", no_retry_on=(Broken,), retry_on=(OSError,), backoff=Backoff.fixed(1, jitter=0))
def named(job: JobContext, error: str) -> None:
    note(job)
    raise {"shaky": Shaky, "broken": Broken, "key": KeyError}[error]


@agent.job("signals")
async def signals(job: JobContext, how: str) -> int | Snooze | Cancel | Fail | RetryAfter:
    before = note(job)
    match how:
        case "snooze":
            return Snooze("1s", "the file is not there yet") if before < 2 else before
        case "cancel":
            raise Cancel("the order was taken back")
        case _:
            return Fail("the account is closed")


@agent.job("never", max_snoozes=2, max_attempts=2)
def never(job: JobContext) -> Snooze:
    note(job)
    return Snooze(0)
