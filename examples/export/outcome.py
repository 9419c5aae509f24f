"""What the databases say when all is over: nothing here comes from the demo's own counting."""

import csv
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from uuid import UUID

from examples.export.files import HEADER
from examples.export.handlers import Summary

from warrener_contracts.state_machine import JobState
from warrener_store import StateStore
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobFilter, JobRow

ROWS_LOADED = """
SELECT (SELECT count(*) FROM flights), (SELECT count(*) FROM (SELECT DISTINCT file, line FROM flights) AS one)
"""
"""The rows of the ledger's database, and those of them that differ."""


@dataclass(frozen=True)
class Outcome:
    """The whole run: `expected` has the rows of each undamaged file, `loads` the jobs of type export.load."""

    job_id: UUID
    turns: int
    summary: Summary
    expected: Mapping[str, int]
    damaged: Mapping[str, str]
    rows: int
    distinct: int  # by file and line
    loads: list[JobRow]
    attempts: list[AttemptRow]

    def figures(self) -> list[tuple[str, str, str]]:
        """What to print: a name, a figure, and more about it."""
        states = Counter(job.state for job in self.loads)
        ends = Counter(attempt.outcome for attempt in self.attempts)
        return [
            (f"rows in the {len(self.expected)} undamaged files", f"{sum(self.expected.values()):,}", ""),
            ("rows loaded", f"{self.rows:,}", ""),
            ("rows loaded twice", f"{self.rows - self.distinct:,}", ""),
            ("jobs that load a file", f"{len(self.loads):,}", _counted(states)),
            ("attempts of them", f"{len(self.attempts):,}", _counted(ends)),
        ]

    def mistakes(self) -> list[str]:
        """What is not as it must be; empty is what we want."""
        rows, files = sum(self.expected.values()), len(self.expected)
        failed = {one.file for one in self.summary.failed}
        dead = {Path(job.arguments["path"]).name for job in self.loads if job.state is JobState.DEAD}
        found = {
            f"expected {rows} rows, got {self.rows}": self.rows != rows,
            f"expected each row once, got {self.rows - self.distinct} twice": self.rows != self.distinct,
            f"expected {files} files and {rows} flights in the result, got {self.summary!r}": (
                (self.summary.files, self.summary.flights) != (files, rows)
            ),
            f"expected the result to name the damaged files, got {sorted(failed)}": failed
            != set(self.damaged),
            f"expected one job a file, got {len(self.loads)}": len(self.loads) != files + len(self.damaged),
            f"expected the jobs of the damaged files to be dead, got {sorted(dead)}": dead
            != set(self.damaged),
        }
        return [what for what, wrong in found.items() if wrong]


async def read_outcome(
    store: StateStore, summary: Summary, files: Path, damaged: Mapping[str, str], loaded: tuple[int, int]
) -> Outcome:
    """Read the store, and count the rows of the files again. `loaded`: what `ROWS_LOADED` finds."""
    loads: list[JobRow] = []
    while page := await store.list_jobs(
        JobFilter(job_type="export.load", before=loads[-1].job_id if loads else None, limit=200)
    ):
        loads += page
    attempts = await store.attempts_of([job.job_id for job in loads])
    [workflow] = await store.list_jobs(JobFilter(job_type="export.night"))
    expected = _count_expected(files, damaged)
    return Outcome(workflow.job_id, workflow.attempt, summary, expected, damaged, *loaded, loads, attempts)


def count_rows(ledger: Path) -> tuple[int, int]:
    """Run `ROWS_LOADED` on a file of SQLite."""
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as database:
        rows, distinct = database.execute(ROWS_LOADED).fetchone()
        return rows, distinct


def _count_expected(folder: Path, damaged: Mapping[str, str]) -> dict[str, int]:
    return {
        file.name: _count_lines(file)
        for file in sorted(folder.glob("*.csv"))
        if file.name not in damaged and S_ISREG(file.stat().st_mode)
    }


def _count_lines(file: Path) -> int:
    with file.open(newline="") as lines:
        return sum(len(line) == len(HEADER) for line in csv.reader(lines)) - 1  # the header


def _counted(numbers: Counter[JobState] | Counter[AttemptOutcome]) -> str:
    return ", ".join(f"{number} {what}" for what, number in numbers.most_common())
