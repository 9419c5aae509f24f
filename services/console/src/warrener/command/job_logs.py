"""The log lines of a job: those that are stored, and those that arrive."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from warrener.render.screen import err, out, print_json, print_json_line
from warrener_contracts.state_machine import JobState

if TYPE_CHECKING:
    from warrener.operations.job_logs import JobLogLine
    from warrener.operations.noun import Backend
    from warrener_store.jobs.rows import JobRow
    from warrener_store.logs.rows import LogChunk

_POLL_INTERVAL = 0.5  # seconds
_LAST_LINES_TIMEOUT = 2.5
"""Seconds after the end of the job in which its last lines may arrive: agents publish them once a second."""
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


async def show_logs(backend: "Backend", row: "JobRow", attempt: int | None, *, as_json: bool) -> None:
    """Print the stored lines of one attempt: the last one that has any, if none is named."""
    from warrener.command.log_lines import end_text, line_texts, start_text
    from warrener.operations.job_logs import read_log

    log = await read_log(backend, row, attempt)
    if as_json:
        print_json(log)
        return
    if not log.lines:
        err().print(f"[soft]No log line of attempt {log.attempt} is stored.[/]")
        return
    attempts = await backend.store.attempts_of([row.job_id])
    begin, end = start_text(row, log.attempt, attempts), end_text(log.attempt, attempts)
    for text in (begin, *line_texts(log.lines), end):
        if text is not None:
            out().print(text, soft_wrap=True)
    if row.attempt > 1 and attempt is None:
        err().print(f"[soft]Attempt {log.attempt} of {row.attempt}; --attempt N shows another.[/]")


async def follow_logs(backend: "Backend", row: "JobRow", attempt: int | None, *, as_json: bool) -> JobState:
    """Print lines as they arrive, until the job or the named attempt has ended; return the job's state.

    Without an attempt it begins with the current one, and goes on with those that follow.
    """
    follower = _Follower(backend, row, attempt, as_json=as_json)
    loop = asyncio.get_running_loop()
    ended_at: float | None = None
    while True:
        row = (await backend.store.jobs_by_id([row.job_id])).get(row.job_id, row)
        await follower.print_new(row)
        if row.state.terminal or (attempt is not None and row.attempt > attempt):
            ended_at = loop.time() if ended_at is None else ended_at
            if follower.is_complete or loop.time() - ended_at > _LAST_LINES_TIMEOUT:
                break
        await asyncio.sleep(_POLL_INTERVAL)
    await follower.print_end(row)
    return row.state


class _Follower:
    """Prints the lines that were stored since the last time."""

    def __init__(self, backend: "Backend", row: "JobRow", attempt: int | None, *, as_json: bool) -> None:
        from warrener_store.logs.rows import LogPosition, LogReader

        self._backend, self._attempt, self._as_json = backend, attempt, as_json
        self._reader = LogReader()
        self._position = LogPosition(attempt or max(row.attempt, 1), _BEGIN, 0)
        self._printed = 0  # the attempt whose lines were printed last
        self._last: LogChunk | None = None
        self._row = row

    @property
    def is_complete(self) -> bool:
        """True if the last lines of the last attempt were printed."""
        last = self._last
        return last is not None and last.final and last.attempt == (self._attempt or self._row.attempt)

    async def print_new(self, row: "JobRow") -> None:
        """Print new lines, with a line before the first one of each attempt."""
        from warrener.operations.job_logs import logged_lines

        self._row = row
        chunks = await self._backend.store.logs_of(row.job_id, attempt=self._attempt, after=self._position)
        if not chunks:
            return
        self._last = chunks[-1]
        # The last chunk is read again, for it may become final; `LogReader` leaves out what it has read.
        self._position = self._last.position._replace(first_line=self._last.first_line - 1)
        for line in logged_lines(self._reader.read(chunks), self._backend.masker):
            if self._as_json:
                print_json_line(line)
            else:
                await self._print(line)

    async def _print(self, line: "JobLogLine") -> None:
        from warrener.command.log_lines import end_text, line_texts, start_text

        if line.attempt != self._printed:
            attempts = await self._backend.store.attempts_of([self._row.job_id])
            if self._printed and (end := end_text(self._printed, attempts)) is not None:
                out().print(end, soft_wrap=True)
            self._printed = line.attempt
            out().print(start_text(self._row, line.attempt, attempts), soft_wrap=True)
        for text in line_texts([line]):
            out().print(text, soft_wrap=True)

    async def print_end(self, row: "JobRow") -> None:
        """Print how the last attempt and the job have ended."""
        from warrener.command.log_lines import end_text, job_end_text

        if self._as_json:
            return
        number = self._attempt or row.attempt
        if (end := end_text(number, await self._backend.store.attempts_of([row.job_id]))) is not None:
            out().print(end, soft_wrap=True)
        if row.state.terminal:
            out().print(job_end_text(row), soft_wrap=True)
