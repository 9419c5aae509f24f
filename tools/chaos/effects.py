"""The effect ledger: what handlers did, in files that the product never sees.

Each process appends to a file of its own (O_APPEND, one write a record), so a killed process loses nothing
that it had written; records are not synced to disk, as no fault here is a crash of the machine. All stamps
come from CLOCK_MONOTONIC_RAW of the host, which libfaketime leaves alone: stamps of two processes compare.
"""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

FOLDER = "CHAOS_EFFECTS"
"""The environment variable that names the folder of the files."""

What = Literal["start", "work", "done", "failed", "stopped"]
"""`work` proves that a handler was executing; `stopped`: its agent ended it."""


def stamp() -> float:
    """Seconds of the host's raw monotonic clock."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) / 1e9


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that a handler did."""

    at: float
    what: What
    run: str
    job: str
    attempt: int
    pid: int
    key: str


class EffectWriter:
    """Appends the records of one process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pid = 0
        self._file = -1
        self._runs = 0

    def begin(self, job: str, attempt: int, key: str) -> "Run":
        """Record the start of a handler."""
        if self._pid != os.getpid():  # a child process inherits this object, and needs a file of its own
            self._pid = os.getpid()
            path = self._folder / f"{self._pid}-{time.monotonic_ns()}.jsonl"
            self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
        self._runs += 1
        run = Run(self, f"{self._pid}.{self._runs}.{int(stamp() * 1000)}", job, attempt, key)
        run.record("start")
        return run

    def append(self, record: Record) -> None:
        """Write one record, whole or not at all."""
        line = [record.at, record.what, record.run, record.job, record.attempt, record.pid, record.key]
        os.write(self._file, json.dumps(line).encode() + b"\n")


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a handler."""

    writer: EffectWriter
    name: str
    job: str
    attempt: int
    key: str

    def record(self, what: What) -> None:
        """Append a record, stamped now."""
        self.writer.append(Record(stamp(), what, self.name, self.job, self.attempt, os.getpid(), self.key))


def read_effects(folder: Path) -> Iterator[Record]:
    """All records of all processes; a last line that a kill has cut is passed over."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            try:
                at, what, run, job, attempt, pid, key = json.loads(line)
            except ValueError:
                continue
            yield Record(float(at), cast("What", what), run, job, int(attempt), int(pid), key)
