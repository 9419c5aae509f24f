"""Jobs for the tests of pages: put into the store as the services put them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tests.store_rows import (
    breaker_row,
    changed,
    died,
    job_type_row,
    queued_job,
    running_job,
    succeeded,
    waiting_job,
)

from warrener_contracts.events import ErrorInfo, ErrorKind, LogEntry
from warrener_contracts.state_machine import JobState
from warrener_store import Store
from warrener_store.agents.rows import JobTypeRow
from warrener_store.breakers.gate import BreakerRow
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobRow
from warrener_store.logs.rows import LogChunk, LogLimit

HOSTILE = "<script>alert(1)</script>"
FINGERPRINT = "9f86d081884c"
ERROR = ErrorInfo(
    kind=ErrorKind.ERROR,
    type="flights.days.Damaged",
    message=f"expected 19 values, got 7 {HOSTILE}",
    stack=f'Traceback:\n  File "flights.py", line 31, in load\n{HOSTILE}\nflights.days.Damaged: 19',
)


def ago(seconds: float) -> datetime:
    """The moment so many seconds before now."""
    return datetime.now(UTC) - timedelta(seconds=seconds)


async def put(store: Store, row: JobRow) -> JobRow:
    """Insert a job and return it."""
    await store.insert_jobs([row])
    return row


async def put_waiting(store: Store, seconds: float = 60, **fields: Any) -> JobRow:
    """A waiting job that was requested so many seconds ago."""
    times = {"requested_at": ago(seconds), "accepted_at": ago(seconds), "updated_at": ago(seconds)}
    return await put(store, waiting_job(**(times | {"due_at": ago(-600), "wake_at": ago(-600)} | fields)))


async def put_succeeded(store: Store, seconds: float = 60, **fields: Any) -> JobRow:
    """A job that was requested so many seconds ago, and has succeeded."""
    row = await _put_running(store, seconds, fields)
    over = succeeded(row, {"rows": 842})
    assert over.attempt is not None
    end = ago(seconds - 2)
    save = replace(
        over, row=replace(over.row, finished_at=end), attempt=replace(over.attempt, finished_at=end)
    )
    await store.save_jobs([save])
    return save.row


async def put_dead(
    store: Store,
    seconds: float = 60,
    *,
    fingerprint: str = FINGERPRINT,
    error: ErrorInfo = ERROR,
    **fields: Any,
) -> JobRow:
    """A job that was requested so many seconds ago, and has died at its second attempt."""
    row = await _put_running(store, seconds, fields)
    retried = replace(
        changed(row, state=JobState.RETRYING, attempt=2, failures=1, error=error, due_at=ago(seconds - 2)),
        attempt=attempt(row, 1, seconds - 1, verdict=f"retry at {ago(seconds - 2).isoformat()}", error=error),
    )
    await store.save_jobs([retried])
    over = died(retried.row, error)
    assert over.dead_letter is not None
    end = ago(seconds - 3)
    save = replace(
        over,
        row=replace(over.row, finished_at=end),
        attempt=attempt(row, 2, seconds - 3, verdict="dead: attempts used up", error=error),
        dead_letter=replace(over.dead_letter, died_at=end, fingerprint=fingerprint, attempts=2),
    )
    await store.save_jobs([save])
    return save.row


async def put_running(store: Store, seconds: float = 60, **fields: Any) -> JobRow:
    """A job that was requested so many seconds ago, and runs."""
    return await _put_running(store, seconds, fields)


async def _put_running(store: Store, seconds: float, fields: dict[str, Any]) -> JobRow:
    times = {
        "requested_at": ago(seconds),
        "accepted_at": ago(seconds),
        "dispatched_at": ago(seconds),
        "started_at": ago(seconds - 0.5),
        "updated_at": ago(seconds - 0.5),
        "wake_at": ago(-60),
        "lease_until": ago(-60),
        "agent_id": "loader-7f3a",
    }
    return await put(store, running_job(**(times | fields)))


async def put_queued(store: Store, seconds: float = 60, **fields: Any) -> JobRow:
    """A job that was dispatched so many seconds ago."""
    times = {
        "requested_at": ago(seconds),
        "accepted_at": ago(seconds),
        "dispatched_at": ago(seconds),
        "updated_at": ago(seconds),
    }
    return await put(store, queued_job(**(times | fields)))


def attempt(row: JobRow, number: int, seconds: float, *, verdict: str, error: ErrorInfo | None) -> AttemptRow:
    """An attempt of a job that has failed so many seconds ago."""
    return AttemptRow(
        job_id=row.job_id,
        attempt=number,
        outcome=AttemptOutcome.FAILED,
        agent_id="loader-7f3a",
        dispatched_at=ago(seconds + 1),
        started_at=ago(seconds + 0.5),
        finished_at=ago(seconds),
        error=error,
        verdict=verdict,
    )


async def put_lines(store: Store, job_id: UUID, number: int, *texts: str) -> None:
    """Log lines of an attempt."""
    lines = tuple(
        LogEntry(number=index + 1, at=ago(30), level="warning", logger="airline.load", text=text)
        for index, text in enumerate(texts)
    )
    chunk = LogChunk(
        job_id=job_id,
        attempt=number,
        started_at=ago(40),
        first_line=1,
        last_line=len(lines),
        line_count=len(lines),
        agent_id="loader-7f3a",
        final=True,
        size=sum(map(len, texts)),
        lines=lines,
    )
    await store.append_logs([chunk], LogLimit(1000, 1_000_000))


def open_breaker(name: str, **fields: Any) -> BreakerRow:
    """A breaker that has opened four minutes ago."""
    plain: dict[str, Any] = {
        "since": ago(240),
        "until": ago(-60),
        "times_opened": 2,
        "reason": "12 of 20 attempts within 1 min have failed",
        "job_types": ("ledger.close",),
    }
    return breaker_row(name, **(plain | fields))


def job_type(arguments: dict[str, Any], name: str = "flights.load") -> JobTypeRow:
    """A job type as an agent announces it, with the schemas of its arguments."""
    return job_type_row(
        name,
        queue="loading",
        arguments_schema={"type": "object", "properties": arguments, "required": ["path"]},
        description=f"Load a day of flights {HOSTILE}",
        announced_by="loader-7f3a",
        announced_at=ago(3600),
    )
