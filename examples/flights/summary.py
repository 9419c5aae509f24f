"""What the databases say when all is over: nothing here comes from the demo's own counting."""

import csv
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from examples.flights.days import HEADER

from warrener_contracts.state_machine import JobState
from warrener_store import StateStore
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobFilter, JobRow


@dataclass(frozen=True)
class Loaded:
    """Rows in the flights table."""

    rows: int
    distinct: int  # by file and line
    files: int


@dataclass(frozen=True)
class Summary:
    """The whole run."""

    expected: Mapping[str, int]  # rows by undamaged file
    loaded: Loaded
    jobs: list[JobRow]  # of type flights.load
    attempts: list[AttemptRow]
    damaged: Mapping[str, str]  # file: how

    @property
    def states(self) -> Counter[JobState]:
        """How many jobs ended how."""
        return Counter(job.state for job in self.jobs)

    @property
    def ends(self) -> Counter[AttemptOutcome]:
        """How many attempts ended how."""
        return Counter(attempt.outcome for attempt in self.attempts)

    @property
    def dead(self) -> dict[str, JobRow]:
        """The dead jobs by their file."""
        return {Path(job.arguments["path"]).name: job for job in self.jobs if job.state is JobState.DEAD}

    @property
    def seconds(self) -> float:
        """From the first acceptance to the last success: the file that hangs takes its own time."""
        ends = [job.finished_at for job in self.jobs if job.finished_at and job.state is JobState.SUCCEEDED]
        return (max(ends) - min(job.accepted_at for job in self.jobs)).total_seconds() if ends else 0.0

    def mistakes(self) -> list[str]:
        """What is not as it must be; empty is what we want."""
        rows = sum(self.expected.values())
        found = {
            f"expected {rows} rows, got {self.loaded.rows}": self.loaded.rows != rows,
            f"expected each row once, got {self.loaded.rows - self.loaded.distinct} twice": (
                self.loaded.rows != self.loaded.distinct
            ),
            f"expected {len(self.expected)} files, got {self.loaded.files}": self.loaded.files
            != len(self.expected),
            f"expected one job a file, got {len(self.jobs)}": len(self.jobs)
            != len(self.expected) + len(self.damaged),
            f"expected the damaged files to be dead jobs, got {sorted(self.dead)}": set(self.dead)
            != set(self.damaged),
            f"expected no other end, got {dict(self.states)}": (
                self.states[JobState.SUCCEEDED] != len(self.expected)
            ),
        }
        return [what for what, wrong in found.items() if wrong]


async def summarise(store: StateStore, ledger: Path, folder: Path, damaged: Mapping[str, str]) -> Summary:
    """Read both databases, and count the files anew."""
    jobs = await _all_loads(store)
    attempts = await store.attempts_of([job.job_id for job in jobs])
    return Summary(_count_files(folder, set(damaged)), _count_rows(ledger), jobs, attempts, damaged)


async def _all_loads(store: StateStore) -> list[JobRow]:
    jobs: list[JobRow] = []
    while page := await store.list_jobs(
        JobFilter(job_type="flights.load", before=jobs[-1].job_id if jobs else None, limit=200)
    ):
        jobs += page
    return jobs


def _count_files(folder: Path, damaged: set[str]) -> dict[str, int]:
    return {
        file.name: _lines(file)
        for file in sorted(folder.glob("*.csv"))
        if file.name not in damaged and S_ISREG(file.stat().st_mode)
    }


def _lines(file: Path) -> int:
    with file.open(newline="") as lines:
        return sum(len(line) == len(HEADER) for line in csv.reader(lines)) - 1  # the header


def _count_rows(ledger: Path) -> Loaded:
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as database:
        rows, files = database.execute("SELECT count(*), count(DISTINCT file) FROM flights").fetchone()
        (distinct,) = database.execute(
            "SELECT count(*) FROM (SELECT DISTINCT file, line FROM flights)"
        ).fetchone()
    return Loaded(rows, distinct, files)
