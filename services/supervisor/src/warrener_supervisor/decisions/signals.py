"""Read events of the status exchange: job, attempt, signal, fence and staleness; make events about jobs.

Staleness is narrower than the fence, which compares attempts: the event is about the current attempt, and
newer information contradicts it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from warrener_contracts import events
from warrener_contracts.retryability import is_unknown_job_type
from warrener_contracts.state_machine import ATTEMPT_SIGNALS, Fence, JobState, Signal, compare_attempts
from warrener_store.jobs.rows import JobRow
from warrener_supervisor import SOURCE
from warrener_supervisor.decisions.context import JudgeContext

E = TypeVar("E", bound=events.Event[Any])

SIGNALS: Mapping[type[events.Event[Any]], Signal] = {
    events.AttemptStarted: Signal.ALIVE,
    events.AttemptProgressed: Signal.ALIVE,
    events.AttemptCheckpointed: Signal.ALIVE,
    events.AttemptSucceeded: Signal.SUCCEEDED,
    events.AttemptSuspended: Signal.SUSPENDED,
    events.AttemptFailed: Signal.FAILED,
    events.AttemptCancelled: Signal.STOPPED,
    events.AttemptReleased: Signal.RELEASED,
    events.AttemptTimedOut: Signal.TIMED_OUT,
    events.AttemptLost: Signal.LOST,
    events.AttemptStartTimedOut: Signal.START_TIMED_OUT,
    events.JobCancelRequested: Signal.CANCEL_REQUESTED,
    events.JobDeadlinePassed: Signal.DEADLINE_PASSED,
}
"""The events that the supervisor judges; any other is in the wrong queue. See `signal_of`."""


def signal_of(event: events.Event[Any]) -> Signal:
    """Return the signal of `event`: by its type, and for two types by the origin of the request."""
    signal = SIGNALS[type(event)]
    if signal is Signal.FAILED and event.data.snoozed:
        return Signal.SNOOZED
    if signal is Signal.STOPPED and event.data.by_handler:
        return Signal.WITHDRAWN
    return signal


def job_of(event: events.Event[Any]) -> UUID:
    data: events.AttemptData | events.JobCancelRequestedData | events.JobDeadlinePassedData = event.data
    return data.job_id


def attempt_of(event: events.Event[Any]) -> int | None:
    """Return the attempt that the event is about; None if it is about the whole job."""
    data: object = event.data
    return data.attempt if isinstance(data, events.AttemptData) else None


def fence_of(row: JobRow, event: events.Event[Any]) -> Fence:
    """Compare the event's attempt with the job's; an event about the whole job is always current."""
    attempt = attempt_of(event)
    if attempt is None or SIGNALS[type(event)] not in ATTEMPT_SIGNALS:
        return Fence.CURRENT
    return compare_attempts(row.attempt, attempt)


def supervisor_event(
    kind: type[E],
    name: str,
    subject: str,
    time: datetime | None,
    data: events.EventData,
    *,
    trace: tuple[str | None, str | None] = (None, None),
) -> E:
    """Make an event of the supervisor; `name` is its id, the same in every repeat."""
    fields: dict[str, Any] = {
        "id": name,
        "source": SOURCE,
        "time": time,
        "subject": subject,
        "traceparent": trace[0],
        "tracestate": trace[1],
        "data": data,
    }
    return kind(**fields)


def job_event(
    kind: type[E],
    row: JobRow,
    name: str,
    time: datetime | None,
    data: events.EventData,
    *,
    trace: tuple[str | None, str | None] | None = None,
) -> E:
    """Make an event about a job, with `name` after the job's id as its own; `trace`: the job's if None."""
    trace = (row.traceparent, row.tracestate) if trace is None else trace
    return supervisor_event(kind, f"{row.job_id}:{name}", str(row.job_id), time, data, trace=trace)


def stale_reason(row: JobRow, event: events.Event[Any], context: JudgeContext) -> str | None:
    """Explain why `event` no longer counts; None if it does."""
    match event:
        case events.AttemptLost():
            return _seen_since(row, event, context)
        case events.AttemptFailed() | events.AttemptCancelled() if _has_claimed(event):
            return _held_by_another(row, event.data.agent_id, event.data.started_at)
        case events.AttemptFailed() | events.AttemptReleased():
            return _held_by_another(row, event.data.agent_id, None)
        case events.AttemptTimedOut() if row.started_at and row.started_at + row.timeout > context.now:
            return f"it has time until {(row.started_at + row.timeout).isoformat()}"
        case events.JobDeadlinePassed() if row.deadline_at is None or row.deadline_at > context.now:
            return "its deadline has not passed"
        case _:
            return None


def _seen_since(row: JobRow, event: events.AttemptLost, context: JudgeContext) -> str | None:
    """Check for a heartbeat that any supervisor has stored, and for a later event of the attempt."""
    if row.state is not JobState.RUNNING:
        return None
    if row.agent_id not in (None, event.data.agent_id):
        return f"the attempt is held by {row.agent_id} now"
    seen = context.seen.get(event.data.agent_id)
    if seen is not None and seen > event.data.last_seen_at and not event.data.not_in_heartbeat:
        return f"its agent was seen again at {seen.isoformat()}"
    if event.time is not None and row.updated_at > event.time:
        return f"an event about it was judged since, at {row.updated_at.isoformat()}"
    return None


def _has_claimed(event: events.AttemptFailed | events.AttemptCancelled) -> bool:
    """False if the agent gives back a dispatch that it cannot run, perhaps a second copy."""
    return isinstance(event, events.AttemptCancelled) or not is_unknown_job_type(event.data.error)


def _held_by_another(row: JobRow, agent_id: str, started_at: datetime | None) -> str | None:
    """Find out if another agent holds the attempt: the ledger grants it to one at a time, so the later start
    holds it.

    Not for successes: the ledger records only the holder's, and agents report only recorded ones.
    """
    if row.state is not JobState.RUNNING or row.agent_id in (None, agent_id):
        return None
    if started_at is not None and row.started_at is not None and started_at > row.started_at:
        return None
    return f"the attempt is held by {row.agent_id} now, not by {agent_id}"
