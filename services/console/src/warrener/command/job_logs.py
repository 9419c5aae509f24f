"""The log lines of a job: those that are stored, and those that arrive."""

import asyncio
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from rich.text import Text

from warrener.operations.job_logs import JobLogLine, logged_lines, read_log
from warrener.operations.masking import mask_attempt
from warrener.operations.noun import Backend
from warrener.render.jobs import outcome_text, state_text
from warrener.render.screen import err, out, print_json, print_json_line
from warrener.render.times import clock, span
from warrener_contracts.state_machine import JobState
from warrener_runtime.terminal import escape_controls
from warrener_store.jobs.rows import AttemptRow, JobRow
from warrener_store.logs.rows import LogChunk, LogPosition, LogReader

_POLL_INTERVAL = 0.5  # seconds
_LAST_LINES_TIMEOUT = 2.5
"""Seconds after the end of the job in which its last lines may arrive: agents publish them once a second."""
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_LEVELS = {"warning": "warning", "error": "error", "critical": "error", "debug": "soft"}
_LEVEL_WIDTH = 8


async def show_logs(backend: Backend, row: JobRow, attempt: int | None, *, as_json: bool) -> None:
    """Print the stored lines of one attempt: the last one that has any, if none is named."""
    log = await read_log(backend, row, attempt)
    if as_json:
        print_json(log)
        return
    if not log.lines:
        err().print(f"[soft]No log line of attempt {log.attempt} is stored.[/]")
        return
    attempts = await _attempts_of(backend, row)
    _print(_start(row, log.attempt, attempts))
    for line in log.lines:
        _print(*_texts_of(line))
    _print(_end(log.attempt, attempts))
    if row.attempt > 1 and attempt is None:
        err().print(f"[soft]Attempt {log.attempt} of {row.attempt}; --attempt N shows another.[/]")


async def follow_logs(backend: Backend, row: JobRow, attempt: int | None, *, as_json: bool) -> JobState:
    """Print lines as they arrive, until the job or the named attempt has ended; return the job's state.

    Without an attempt it begins with the current one, and goes on with those that follow.
    """
    reader, position = LogReader(), LogPosition(attempt or max(row.attempt, 1), _BEGIN, 0)
    last: LogChunk | None = None
    ended_at: float | None = None
    printed, loop = 0, asyncio.get_running_loop()
    while True:
        row = (await backend.store.jobs_by_id([row.job_id])).get(row.job_id, row)
        if chunks := await backend.store.logs_of(row.job_id, attempt=attempt, after=position):
            last = chunks[-1]
            # The last chunk is read again, for it may become final; `LogReader` leaves out what it has read.
            position = last.position._replace(first_line=last.first_line - 1)
            lines = logged_lines(reader.read(chunks), (await backend.learn()).of(row.job_type))
            printed = await _print_arrived(backend, row, lines, printed, as_json=as_json)
        if row.state.terminal or (attempt is not None and row.attempt > attempt):
            ended_at = loop.time() if ended_at is None else ended_at
            is_complete = last is not None and last.final and last.attempt == (attempt or row.attempt)
            if is_complete or loop.time() - ended_at > _LAST_LINES_TIMEOUT:
                break
        await asyncio.sleep(_POLL_INTERVAL)
    if not as_json:
        _print(_end(attempt or row.attempt, await _attempts_of(backend, row)))
        if row.state.terminal:
            _print(Text.assemble(("job ", "key"), state_text(row.state)))
    return row.state


async def _print_arrived(
    backend: Backend, row: JobRow, lines: Iterable[JobLogLine], attempt: int, *, as_json: bool
) -> int:
    """Print lines behind those of an attempt, with a line before and behind each attempt; return the last."""
    for line in lines:
        if as_json:
            print_json_line(line)
            continue
        if line.attempt != attempt:
            attempts = await _attempts_of(backend, row)
            _print(_end(attempt, attempts), _start(row, line.attempt, attempts))
            attempt = line.attempt
        _print(*_texts_of(line))
    return attempt


async def _attempts_of(backend: Backend, row: JobRow) -> list[AttemptRow]:
    masker = (await backend.learn()).of(row.job_type)
    return [mask_attempt(masker, one) for one in await backend.store.attempts_of([row.job_id])]


def _print(*texts: Text | None) -> None:
    for text in texts:
        if text is not None:
            out().print(text, soft_wrap=True)


# -- texts -------------------------------------------------------------------------------------------------


def _texts_of(line: JobLogLine) -> Iterator[Text]:
    """A line, behind one for the lines that are missing before it: `… 93,412 lines left out`."""
    if line.omitted:
        lines = "line" if line.omitted == 1 else "lines"
        yield Text(f"… {line.omitted:,} {lines} left out", style="soft")
    local, level = line.at.astimezone(), line.level or ""
    yield Text.assemble(
        f"{local:%H:%M:%S}.{local.microsecond // 1000:03} ",
        (f"{level.upper()[:_LEVEL_WIDTH]:<{_LEVEL_WIDTH}} ", _LEVELS.get(level, "")),
        f"{escape_controls(line.logger).replace(chr(10), ' ')}  ",
        escape_controls(line.text).replace("\n", "\n    "),
        style="soft",
    )


def _start(row: JobRow, number: int, attempts: Iterable[AttemptRow]) -> Text:
    """The first line of an attempt: when it started, and where."""
    past = _find(number, attempts)
    started_at = past.started_at if past else (row.started_at if row.attempt == number else None)
    agent_id = past.agent_id if past else row.agent_id
    text = Text(f"attempt {number}", style="key")
    if started_at is not None:
        text.append(f" started {clock(started_at)}", style="soft")
    if agent_id:
        text.append(f" on agent {agent_id}", style="soft")
    return text


def _end(number: int, attempts: Iterable[AttemptRow]) -> Text | None:
    """The last line of an attempt: its outcome, its duration and its error; None if it is not over."""
    if (past := _find(number, attempts)) is None:
        return None
    text = Text.assemble((f"attempt {number} ", "key"), outcome_text(past.outcome))
    if past.started_at is not None:
        text.append(f" after {span(past.finished_at - past.started_at)}", style="soft")
    if past.error is not None:
        text.append(f": {past.error.type}: {past.error.message}".replace("\n", "\n    "))
    return text


def _find(number: int, attempts: Iterable[AttemptRow]) -> AttemptRow | None:
    return next((one for one in attempts if one.attempt == number), None)
