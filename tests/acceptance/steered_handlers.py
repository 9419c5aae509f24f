"""Handlers of the tests of cancelling and checkpoints, in agents of their own processes."""

import asyncio
import os
from pathlib import Path
from typing import Any

from warrener_agent import Agent, Backoff, JobContext

agent = Agent()


def note(job: JobContext, what: str) -> None:
    """For the test to see."""
    with Path(f"notes-{job.job_id}").open("a") as file:
        file.write(f"{what}\n")


# -- cancelling --------------------------------------------------------------------------------------------


@agent.job("runs.coroutine")
async def runs_in_a_coroutine(job: JobContext) -> None:
    note(job, "began")
    try:
        await asyncio.Event().wait()
    finally:
        note(job, "tidied up")


@agent.job("runs.thread")
def runs_in_a_thread(job: JobContext) -> None:
    note(job, "began")
    while not job.stopping:
        job.progress(0.5, "going round")
    note(job, "tidied up")


@agent.job("runs.process", executor="process")
def runs_in_a_process(job: JobContext) -> None:
    note(job, f"began {os.getpid()}")
    while True:
        pass


# -- checkpoints -------------------------------------------------------------------------------------------


def climb(job: JobContext) -> dict[str, Any]:
    found: dict[str, Any] = job.last_checkpoint or {"step": 0, "found_by": []}
    step: int = found["step"] + 1
    if step > 3:
        return found
    job.checkpoint({"step": -1})  # the last one counts
    job.checkpoint({"step": step, "found_by": [*found["found_by"], job.attempt]})
    raise RuntimeError(f"fell down at step {step}")


@agent.job("climbs.coroutine", backoff=Backoff.fixed(1, jitter=0))
async def climbs_in_a_coroutine(job: JobContext) -> dict[str, Any]:
    return climb(job)


@agent.job("climbs.thread", backoff=Backoff.fixed(1, jitter=0))
def climbs_in_a_thread(job: JobContext) -> dict[str, Any]:
    return climb(job)


@agent.job("climbs.process", executor="process", backoff=Backoff.fixed(1, jitter=0))
def climbs_in_a_process(job: JobContext) -> dict[str, Any]:
    return climb(job)


@agent.job("rests")
async def rests(job: JobContext) -> Any:
    if job.last_checkpoint is None:
        job.checkpoint({"rows": 512})
        await asyncio.Event().wait()
    return {"found": job.last_checkpoint, "attempt": job.attempt}


@agent.job("hoards")
def hoards(job: JobContext) -> list[str]:
    complaints: list[str] = []
    for state in ("x" * 20_000, object(), "\0"):
        try:
            job.checkpoint(state)
        except ValueError as error:
            complaints.append(str(error))
    return complaints
