"""Mails that are sent many at a time. Each run and each mail is noted."""

import asyncio
import os
from pathlib import Path

from tests.acceptance.gate import pass_gate

from warrener_agent import Agent, Backoff, Gather, JobContext

UP_TO = 100
agent = Agent()


def note(file: str, *words: object) -> None:
    """One line, whole and behind those that other processes have written before."""
    notes = os.open(Path(file), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(notes, f"{' '.join(map(str, words))}\n".encode())
    os.close(notes)


@agent.job("mail.send", queue="mail", gather=Gather(up_to=UP_TO, within="2s"), backoff=Backoff.fixed(1))
async def send(number: list[int], jobs: list[JobContext]) -> list[str | Exception]:
    """Every hundredth fails at first."""
    note("runs", len(number))
    await asyncio.sleep(0.05)  # the time that the other side takes
    return [
        OSError(f"{one} is away") if one % 100 == 99 and job.attempt == 1 else f"{one} {job.job_id}"
        for one, job in zip(number, jobs, strict=True)
    ]


@agent.job("mail.hold", queue="mail", gather=Gather(up_to=20, within="2s"))
def hold(number: list[int], jobs: list[JobContext]) -> list[int]:
    """Wait at a gate, and then note each mail."""
    note("held", os.getpid(), len(number))
    pass_gate(Path("gate" if os.environ.get("WAITS") else "open-gate"))
    for job in jobs:
        note("sent", job.job_id)
    return [one * one for one in number]
