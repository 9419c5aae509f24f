"""Log lines of attempts as frozen values. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

if TYPE_CHECKING:
    from warrener_contracts.events import LogEntry
else:
    LogEntry = object  # its module is large, and no row is checked when it is made

MAX_LOGGED_ATTEMPTS = 20
"""Attempts of a job whose lines are stored; those of earlier attempts are deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Lines of one attempt, as an agent has published them together.

    `started_at` distinguishes the runs of one attempt on several agents. `first_line` and `last_line` are the
    numbers of its lines; numbers between them may be missing. `size`: bytes of the texts.
    """

    job_id: UUID
    attempt: int
    started_at: datetime
    first_line: int
    last_line: int
    line_count: int
    agent_id: str
    final: bool
    size: int
    lines: tuple[LogEntry, ...]

    @property
    def position(self) -> "LogPosition":
        """Its place among the chunks of its job."""
        return LogPosition(self.attempt, self.started_at, self.first_line)


class LogPosition(NamedTuple):
    """The place of a chunk among those of its job."""

    attempt: int
    started_at: datetime
    first_line: int


class LogLimit(NamedTuple):
    """The stored end of an attempt's log: the last chunks with at least so many lines or bytes."""

    lines: int
    size: int


class ReadEntry(NamedTuple):
    """A line, and the number of lines that are missing before it."""

    attempt: int
    omitted: int
    entry: LogEntry


class LogReader:
    """Reads chunks of one job in order: each line once. An attempt that ran twice begins twice."""

    def __init__(self) -> None:
        self._run: tuple[int, datetime] | None = None
        self._last = 0

    def read(self, chunks: Iterable[LogChunk]) -> list[ReadEntry]:
        """The lines of further chunks."""
        found: list[ReadEntry] = []
        for chunk in chunks:
            run = chunk.attempt, chunk.started_at
            if run != self._run:
                self._run, self._last = run, 0
            for entry in chunk.lines:
                if entry.number > self._last:  # else it was published twice
                    found.append(ReadEntry(chunk.attempt, entry.number - self._last - 1, entry))
                    self._last = entry.number
        return found
