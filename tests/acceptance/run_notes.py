"""Runs that handlers note in a file of their warren's folder, in processes of their own."""

import os
import time
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from warrener_agent import JobContext

_FILE = "runs"


class Run(NamedTuple):
    """An attempt that a process has begun."""

    job_id: UUID
    attempt: int
    pid: int
    at: float


def note_run(job: JobContext) -> None:
    """Note that this attempt runs: one line, whole beside those of other processes."""
    with Path(_FILE).open("a") as file:
        file.write(f"{job.job_id} {job.attempt} {os.getpid()} {time.time():.3f}\n")


def runs_in(folder: Path) -> list[Run]:
    """The runs that were noted, in their order."""
    notes = folder / _FILE
    lines = notes.read_text().splitlines() if notes.exists() else []
    return [
        Run(UUID(job), int(attempt), int(pid), float(at)) for job, attempt, pid, at in map(str.split, lines)
    ]
