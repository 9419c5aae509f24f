"""The stored log lines of a job's attempts."""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from warrener.operations.masking import Masker
from warrener.operations.noun import Backend
from warrener_contracts.events import LogEntry
from warrener_store.jobs.rows import JobRow
from warrener_store.logs.rows import MAX_LOGGED_ATTEMPTS, LogReader, ReadEntry

MAX_LINES = 500  # the newest lines of an attempt that one answer of the API has


class JobLogLine(LogEntry, frozen=True):
    """A log line; `omitted` lines before it are missing."""

    attempt: int
    omitted: int


class JobLog(BaseModel):
    """The stored lines of one attempt. `complete`: its last line is among them; `cut` lines before them are
    stored too."""

    attempt: int
    agent_ids: list[str]
    omitted: int
    cut: int
    complete: bool
    lines: list[JobLogLine]


def logged_lines(read: Iterable[ReadEntry], masker: Masker) -> list[JobLogLine]:
    """Make lines of entries, without secrets."""
    found: list[JobLogLine] = []
    for number, omitted, entry in read:
        fields: dict[str, Any] = dict(entry) | {"text": masker.text(entry.text)}
        found.append(JobLogLine.model_construct(**fields, attempt=number, omitted=omitted))
    return found


async def read_log(
    backend: Backend, row: JobRow, attempt: int | None = None, max_lines: int | None = None
) -> JobLog:
    """Read the newest lines of an attempt; None: of the newest one that has any."""
    numbers: Sequence[int] = [attempt] if attempt else logged_attempts(row.attempt)
    for number in numbers:
        chunks = await backend.store.logs_of(row.job_id, attempt=number)
        if chunks:
            read = LogReader().read(chunks)
            shown = read if max_lines is None else read[-max_lines:]
            return JobLog.model_construct(
                attempt=number,
                agent_ids=list(dict.fromkeys(chunk.agent_id for chunk in chunks)),
                omitted=sum(line.omitted for line in read),
                cut=len(read) - len(shown),
                complete=chunks[-1].final,
                lines=logged_lines(shown, (await backend.learn()).of(row.job_type)),
            )
    return JobLog(attempt=numbers[0], agent_ids=[], omitted=0, cut=0, complete=False, lines=[])


def logged_attempts(newest: int) -> range:
    """The attempts whose lines may be stored, the newest first."""
    newest = max(newest, 1)
    return range(newest, max(newest - MAX_LOGGED_ATTEMPTS, 0), -1)
