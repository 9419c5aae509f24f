"""Which time limits a job has passed, and the events by which the watchdog reports them.

An attempt that runs too long is stopped first, and counts as timed out once it has certainly ended: its agent
has reported the end, or has not listed the attempt in a heartbeat for a whole lease. A living agent lists
what it runs, and one that cannot send heartbeats has died or lost its claims. Until then the watchdog repeats
the event, and each repeat stops the attempt again.

The events go by the status exchange to the judge, so a supervisor that dies in between loses nothing.
"""

from datetime import datetime
from typing import Any

from warrener_contracts import events
from warrener_contracts.events.errors import FlightRecord
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow, evolve
from warrener_supervisor.decisions.context import JobTransition, JudgeContext, Notification, Timings
from warrener_supervisor.decisions.signals import job_event

_NOBODY = "none"


def has_overrun(row: JobRow, now: datetime, timings: Timings) -> bool:
    """True if the current attempt runs past its timeout and past the agent's time to end it itself."""
    if row.state is not JobState.RUNNING or row.started_at is None:
        return False
    return row.started_at + row.timeout + timings.timeout_grace <= now


def was_overrunning(row: JobRow, last_seen_at: datetime, now: datetime, timings: Timings) -> bool:
    """True if the silent agent still ran the attempt when its timeout passed.

    An agent that fell silent before that was lost, however late that is noticed: a supervisor may have
    been away.
    """
    if row.started_at is None or row.started_at + row.timeout > last_seen_at:
        return False
    return has_overrun(row, now, timings)


def on_timed_out(row: JobRow, _: events.AttemptTimedOut, context: JudgeContext) -> JobTransition:
    """Have the agent stop the attempt. The job stays running until then, and nothing else begins."""
    waits = evolve(row, wake_at=context.now + context.timings.claim, updated_at=context.now)
    return JobTransition(waits, "stop requested", notifications=frozenset({Notification.CANCEL}))


def timeout_error(
    row: JobRow, how_it_ended: str, flight_record: FlightRecord | None = None
) -> events.ErrorInfo:
    """Make the error of an attempt that timed out."""
    seconds = row.timeout.total_seconds()
    return events.ErrorInfo(
        kind=events.ErrorKind.TIMEOUT,
        type="timeout",
        message=f"it ran for more than {seconds:g} s; {how_it_ended}",
        flight_record=flight_record,
    )


def watchdog_event(row: JobRow, now: datetime, timings: Timings) -> events.Event[Any] | None:
    """Return the event for a job whose `wake_at` has come. The loss detector finds losses by their agents."""
    if row.state in (JobState.QUEUED, JobState.RETRYING):
        overdue = events.AttemptStartTimedOutData(**_attempt(row), dispatched_at=row.dispatched_at)
        return job_event(events.AttemptStartTimedOut, row, f"{row.attempt}:overdue", now, overdue)
    if not has_overrun(row, now, timings):
        return None
    timed_out = events.AttemptTimedOutData(**_attempt(row), timeout_seconds=row.timeout.total_seconds())
    return job_event(events.AttemptTimedOut, row, f"{row.attempt}:timed_out", now, timed_out)


def deadline_event(row: JobRow, now: datetime) -> events.Event[Any] | None:
    """Return the event for a job whose `deadline_at` has come; a deadline does not end an end."""
    if row.deadline_at is None or row.ending is not None:
        return None
    data = events.JobDeadlinePassedData(job_id=row.job_id, deadline=row.deadline_at)
    return job_event(events.JobDeadlinePassed, row, "deadline_passed", now, data)


def lost_event(
    row: JobRow, last_seen_at: datetime, now: datetime, *, not_in_heartbeat: bool = False
) -> events.Event[Any]:
    """Return the event for a lost attempt; `not_in_heartbeat`: its agent lives and does not list it."""
    data = events.AttemptLostData(
        **_attempt(row), last_seen_at=last_seen_at, not_in_heartbeat=not_in_heartbeat
    )
    return job_event(events.AttemptLost, row, f"{row.attempt}:lost", now, data)


def _attempt(row: JobRow) -> dict[str, Any]:
    """Return the fields that name the current attempt."""
    return {
        "job_id": row.job_id,
        "attempt": row.attempt,
        "job_type": row.job_type,
        "agent_id": row.agent_id or _NOBODY,
    }
