"""What the watchdog has to say about a job that somebody must look at. Pure.

It only says it, on the status exchange, where the judge hears it like every other word: so a supervisor that
dies between saying and judging loses nothing.
"""

from datetime import datetime
from typing import Any

from warrener_contracts.events import (
    AttemptLost,
    AttemptLostData,
    AttemptStartTimedOut,
    AttemptStartTimedOutData,
    AttemptTimedOut,
    AttemptTimedOutData,
    Event,
    JobDeadlinePassed,
    JobDeadlinePassedData,
)
from warrener_contracts.states import JobState
from warrener_store.rows import JobRow
from warrener_supervisor.source import SOURCE
from warrener_supervisor.timeouts import has_overrun
from warrener_supervisor.timings import Timings

_NOBODY = "none"


def watchdog_event(row: JobRow, now: datetime, timings: Timings) -> Event[Any] | None:
    """The word about a job whose `wake_at` has come. The losses of running ones are found by their agents
    (`losses`)."""
    if row.state in (JobState.QUEUED, JobState.RETRYING):
        return _overdue(row, now)
    return _timed_out(row, now) if has_overrun(row, now, timings) else None


def deadline_event(row: JobRow, now: datetime) -> Event[Any] | None:
    """The word about a job whose `deadline_at` has come."""
    if row.deadline_at is None:
        return None
    return JobDeadlinePassed(
        id=f"{row.job_id}:deadline_passed",
        source=SOURCE,
        time=now,
        subject=str(row.job_id),
        traceparent=row.traceparent,
        tracestate=row.tracestate,
        data=JobDeadlinePassedData(job_id=row.job_id, deadline=row.deadline_at),
    )


def lost_event(row: JobRow, last_seen_at: datetime, now: datetime, *, unlisted: bool = False) -> Event[Any]:
    """The current attempt is lost with its agent; `unlisted`: its agent lives and no longer lists it."""
    return AttemptLost(
        id=f"{row.job_id}:{row.attempt}:lost",
        source=SOURCE,
        time=now,
        subject=str(row.job_id),
        traceparent=row.traceparent,
        tracestate=row.tracestate,
        data=AttemptLostData(
            job_id=row.job_id,
            attempt=row.attempt,
            job_type=row.job_type,
            agent_id=row.owner or _NOBODY,
            last_seen_at=last_seen_at,
            unlisted=unlisted,
        ),
    )


def _overdue(row: JobRow, now: datetime) -> Event[Any]:
    return AttemptStartTimedOut(
        id=f"{row.job_id}:{row.attempt}:overdue",
        source=SOURCE,
        time=now,
        subject=str(row.job_id),
        traceparent=row.traceparent,
        tracestate=row.tracestate,
        data=AttemptStartTimedOutData(
            job_id=row.job_id,
            attempt=row.attempt,
            job_type=row.job_type,
            agent_id=row.owner or _NOBODY,
            dispatched_at=row.dispatched_at,
        ),
    )


def _timed_out(row: JobRow, now: datetime) -> Event[Any]:
    return AttemptTimedOut(
        id=f"{row.job_id}:{row.attempt}:timed_out",
        source=SOURCE,
        time=now,
        subject=str(row.job_id),
        traceparent=row.traceparent,
        tracestate=row.tracestate,
        data=AttemptTimedOutData(
            job_id=row.job_id,
            attempt=row.attempt,
            job_type=row.job_type,
            agent_id=row.owner or _NOBODY,
            timeout_seconds=row.policy.timeout.total_seconds(),
        ),
    )
