"""How a job ends: succeeded, dead, cancelled or expired. Nothing wakes a job after its end.

A cancel may also come before its job, for two schedulers may take the two at the same time, and a request
may come again long after. Then a tombstone, the mark of the cancel, takes the job's place under its id until
it expires, and the request finds the job cancelled. The row's unique key does the locking, and a job that
nobody cancels pays nothing for it.
"""

from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

from warrener_contracts.events import AttemptSucceeded, ErrorInfo, JobCancelRequested, JobDeadlinePassed
from warrener_contracts.policy import Guarantee, JobPolicy
from warrener_contracts.state_machine import JobState, Signal
from warrener_store.dead_letters.rows import DeadLetter
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobRow, evolve
from warrener_store.jobs.rules import CANCEL_MARK, VERDICT
from warrener_supervisor.decisions.cause import fingerprint
from warrener_supervisor.decisions.context import JobTransition, JudgeContext, Notification

_QUEUE = "default"


def on_succeeded(row: JobRow, event: AttemptSucceeded, context: JudgeContext) -> JobTransition:
    """End the job with the result of its current attempt, or of an earlier one that the ledger has recorded.

    A cancel that came too late changes nothing, because the effects are there.
    """
    data = event.data
    notifications = notifications_for(JobState.SUCCEEDED, Signal.SUCCEEDED)
    if data.attempt < row.attempt and row.state is JobState.RUNNING:
        # the later attempt may run where the ledger of the earlier one is not known
        notifications |= {Notification.CANCEL}
    over = _over(row, JobState.SUCCEEDED, context.now, result=data.result, agent_id=data.agent_id)
    itself = data.recorded_attempt == row.attempt
    verdict = VERDICT if itself else f"{VERDICT}: recorded by attempt {data.recorded_attempt}"
    end, agent = AttemptOutcome.SUCCEEDED, data.agent_id
    record = attempt_record(row, end, data.finished_at, agent, started_at=data.started_at, verdict=verdict)
    return JobTransition(over, VERDICT, attempt=record, notifications=notifications)


def attempt_record(
    row: JobRow,
    end: AttemptOutcome,
    finished_at: datetime,
    agent_id: str | None,
    *,
    started_at: datetime | None = None,
    error: ErrorInfo | None = None,
    verdict: str = "",
) -> AttemptRow:
    """Make the record of the current attempt; `started_at`: the row's if None."""
    return AttemptRow(
        job_id=row.job_id,
        attempt=row.attempt,
        outcome=end,
        agent_id=agent_id,
        dispatched_at=row.dispatched_at,
        started_at=started_at or row.started_at,
        finished_at=finished_at,
        error=error,
        verdict=verdict,
    )


def end_dead(row: JobRow, record: AttemptRow, reason: str, now: datetime) -> JobTransition:
    """End a job that has no attempt left, or that no attempt would help; a dead letter stores it."""
    dead_letter = DeadLetter(
        job_id=row.job_id,
        job_type=row.job_type,
        attempts=row.tries,
        reason=reason,
        error=row.error,
        died_at=now,
        fingerprint=fingerprint(row.job_type, row.error),
    )
    return JobTransition(
        _over(row, JobState.DEAD, now, agent_id=row.agent_id),
        "dead",
        attempt=replace(record, verdict=f"dead: {reason}"),
        dead_letter=dead_letter,
        notifications=notifications_for(JobState.DEAD, None),
    )


def end_cancelled(row: JobRow, record: AttemptRow | None, now: datetime) -> JobTransition:
    """End a job whose cancellation was requested and of which no attempt runs any longer."""
    attempt = record and replace(record, verdict=f"cancelled: {row.cancel_reason or 'its agent stopped it'}")
    return JobTransition(
        _over(row, JobState.CANCELLED, now, agent_id=row.agent_id),
        "cancelled",
        attempt=attempt,
        notifications=notifications_for(JobState.CANCELLED, None),
    )


def on_cancel_requested(row: JobRow, event: JobCancelRequested, context: JudgeContext) -> JobTransition:
    """Stop a running attempt, whose end will end the job; end any other job.

    The requester of the cancel does not get the end with its result: that is for the requesters of the job.
    `cancel_tree.cancel_replies` answers with the state.
    """
    reason = row.cancel_reason or event.data.reason
    requested = evolve(row, cancel_reason=reason, updated_at=context.now)
    if row.state is JobState.RUNNING:
        return JobTransition(requested, "stop requested", notifications=frozenset({Notification.CANCEL}))
    decision = end_cancelled(requested, None, context.now)
    return decision._replace(notifications=notifications_for(JobState.CANCELLED, Signal.CANCEL_REQUESTED))


def on_deadline_passed(row: JobRow, event: JobDeadlinePassed, context: JudgeContext) -> JobTransition:
    """End the job in any state, because its deadline has passed."""
    over = _over(row, JobState.EXPIRED, context.now, agent_id=row.agent_id)
    record, notifications = None, notifications_for(over.state, Signal.DEADLINE_PASSED)
    if row.state is JobState.RUNNING:
        why = f"expired: its deadline was {event.data.deadline.isoformat()}"
        record = attempt_record(row, AttemptOutcome.CANCELLED, context.now, row.agent_id, verdict=why)
    return JobTransition(over, "expired", attempt=record, notifications=notifications)


@cache
def notifications_for(state: JobState, signal: Signal | None) -> frozenset[Notification]:
    """Return what to publish about a job that this signal has brought to this terminal state."""
    notifications = {Notification.FINISHED}
    if state is JobState.DEAD:
        notifications.add(Notification.DEAD)
    if signal in (Signal.CANCEL_REQUESTED, Signal.DEADLINE_PASSED, Signal.ALIVE, Signal.LOST):
        # an agent may hold an attempt of it, or receive its dispatch again: the ledgers refuse it
        notifications.add(Notification.CANCEL)
    return frozenset(notifications)


def _over(row: JobRow, end: JobState, now: datetime, *, agent_id: str | None, result: Any = None) -> JobRow:
    """Change all fields in one copy of the row."""
    return evolve(
        row,
        version=row.version + 1,
        state=end,
        due_at=None,
        wake_at=None,
        lease_until=None,
        finished_at=now,
        updated_at=now,
        agent_id=agent_id,
        result=result,
    )


def tombstone_for(event: JobCancelRequested, user_id: str | None, now: datetime) -> JobRow:
    """Make the row of a job of which only the cancel `event` is known, by this user of the broker."""
    data = event.data
    return JobRow(
        job_id=data.job_id,
        job_type=CANCEL_MARK,
        queue=_QUEUE,
        arguments={} if user_id is None else {"user": user_id},
        guarantee=Guarantee.IDEMPOTENT,
        policy=JobPolicy(),
        source=event.source,
        traceparent=event.traceparent,
        tracestate=event.tracestate,
        requested_at=event.time or now,
        accepted_at=now,
        state=JobState.CANCELLED,
        cancel_reason=data.reason,
        finished_at=now,
        updated_at=now,
    )


def describe_cancel(before: JobRow | None, after: JobRow | None, *, tree: bool) -> tuple[bool, str]:
    """True if a cancel counts, and its effect; or False, and the reason. The rows are those around it."""
    if before is None or after is None:
        return True, "no request with this id has come yet; the one that comes later is cancelled"
    if after.state is JobState.CANCELLED:
        return True, "it was cancelled before" if before.state.terminal else ""
    if after.ending is not None:
        return True, f"its child jobs end, what has an undo is undone, then it is {after.ending.value}"
    if tree:
        return True, "its child jobs are cancelled" if after.state.terminal else "its agent stops it"
    if after.state.terminal:
        left = "" if after.state is JobState.SUCCEEDED else "; agents refuse its attempts from now on"
        return False, f"expected a job that has not ended, got one that is {after.state.value}{left}"
    return True, "its agent stops it"
