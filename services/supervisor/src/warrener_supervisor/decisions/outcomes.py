"""DOC"""

from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

from warrener_contracts.events import AttemptSucceeded, JobCancelRequested, JobDeadlinePassed
from warrener_contracts.policy import Guarantee, JobPolicy
from warrener_contracts.state_machine import Signal
from warrener_contracts.states import JobState
from warrener_store.job_row import evolve
from warrener_store.last_attempt import VERDICT
from warrener_store.rows import AttemptEnd, AttemptRow, DeadLetter, JobRow
from warrener_store.watchers import merge_watchers
from warrener_supervisor.decisions.cause import fingerprint
from warrener_supervisor.decisions.context import JobTransition, JudgeContext, Notification

JOB_TYPE = "job.unheard"
"""Of a job of which only the cancel was heard. No agent can declare it: `job` is a reserved first word."""


_QUEUE = "default"


def on_succeeded(row: JobRow, event: AttemptSucceeded, context: JudgeContext) -> JobTransition:
    """The result of the current attempt, or of an earlier one that the ledger has recorded. A cancel that
    came too late changes nothing: the effects are there."""
    data = event.data
    notifications = notifications_for(JobState.SUCCEEDED, Signal.SUCCEEDED)
    if data.attempt < row.attempt and row.state is JobState.RUNNING:
        notifications |= {
            Notification.CANCEL
        }  # the later attempt runs where the ledger of the earlier one is not known
    over = _over(row, JobState.SUCCEEDED, context.now, result=data.result, owner=data.agent_id)
    itself = data.recorded_attempt == row.attempt
    verdict = VERDICT if itself else f"{VERDICT}: recorded by attempt {data.recorded_attempt}"
    record = AttemptRow(
        job_id=row.job_id,
        attempt=row.attempt,
        end=AttemptEnd.SUCCEEDED,
        agent_id=data.agent_id,
        dispatched_at=row.dispatched_at,
        started_at=data.started_at,
        finished_at=data.finished_at,
        error=None,
        verdict=verdict,
    )
    return JobTransition(over, VERDICT, attempt=record, notifications=notifications)


def end_dead(row: JobRow, record: AttemptRow, reason: str, now: datetime) -> JobTransition:
    """No attempt is left, or none would help: a dead letter keeps it."""
    dead_letter = DeadLetter(
        job_id=row.job_id,
        job_type=row.job_type,
        attempts=row.attempt,
        reason=reason,
        error=row.error,
        died_at=now,
        fingerprint=fingerprint(row.job_type, row.error),
    )
    return JobTransition(
        _over(row, JobState.DEAD, now, owner=row.owner),
        "dead",
        attempt=replace(record, verdict=f"dead: {reason}"),
        dead_letter=dead_letter,
        notifications=notifications_for(JobState.DEAD, None),
    )


def end_cancelled(row: JobRow, record: AttemptRow | None, now: datetime) -> JobTransition:
    """Somebody asked, and no attempt runs any more."""
    attempt = record and replace(record, verdict=f"cancelled: {row.cancel_reason or 'its agent stopped it'}")
    return JobTransition(
        _over(row, JobState.CANCELLED, now, owner=row.owner),
        "cancelled",
        attempt=attempt,
        notifications=notifications_for(JobState.CANCELLED, None),
    )


def on_cancel_requested(row: JobRow, event: JobCancelRequested, context: JudgeContext) -> JobTransition:
    """What runs is told to stop and ends when its agent says so; everything else ends here. The asker
    watches."""
    data = event.data
    watchers = merge_watchers(row.watchers, [data.reply_to]) if data.reply_to else row.watchers
    requested = evolve(
        row, cancel_reason=row.cancel_reason or data.reason, watchers=watchers, updated_at=context.now
    )
    if row.state is JobState.RUNNING:
        return JobTransition(requested, "told to stop", notifications=frozenset({Notification.CANCEL}))
    decision = end_cancelled(requested, None, context.now)
    return decision._replace(notifications=notifications_for(JobState.CANCELLED, Signal.CANCEL_REQUESTED))


def on_deadline_passed(row: JobRow, event: JobDeadlinePassed, context: JudgeContext) -> JobTransition:
    """Its deadline has passed, whatever it was doing."""
    over = _over(row, JobState.EXPIRED, context.now, owner=row.owner)
    record = None
    if row.state is JobState.RUNNING:
        record = AttemptRow(
            job_id=row.job_id,
            attempt=row.attempt,
            end=AttemptEnd.CANCELLED,
            agent_id=row.owner,
            dispatched_at=row.dispatched_at,
            started_at=row.started_at,
            finished_at=context.now,
            error=None,
            verdict=f"expired: its deadline was {event.data.deadline.isoformat()}",
        )
    return JobTransition(
        over, "expired", attempt=record, notifications=notifications_for(over.state, Signal.DEADLINE_PASSED)
    )


@cache
def notifications_for(state: JobState, signal: Signal | None) -> frozenset[Notification]:
    """What is told of a job that this signal has brought to this terminal state."""
    notifications = {Notification.FINISHED}
    if state is JobState.DEAD:
        notifications.add(Notification.DEAD)
    if signal in (Signal.CANCEL_REQUESTED, Signal.DEADLINE_PASSED, Signal.ALIVE):
        notifications.add(Notification.CANCEL)  # an agent may hold an attempt of it
    if signal is Signal.LOST and state is JobState.CANCELLED:
        notifications.add(
            Notification.CANCEL
        )  # the lost agent may come back: its neighbours mark the ledger they share
    return frozenset(notifications)


def _over(row: JobRow, end: JobState, now: datetime, *, owner: str | None, result: Any = None) -> JobRow:
    """All that changes, in one copy of the row."""
    return evolve(
        row,
        version=row.version + 1,
        state=end,
        due_at=None,
        wake_at=None,
        lease_until=None,
        finished_at=now,
        updated_at=now,
        owner=owner,
        result=result,
    )


def tombstone_for(event: JobCancelRequested, now: datetime) -> JobRow:
    """The job that `event` cancels, of which nothing else is known."""
    data = event.data
    return JobRow(
        job_id=data.job_id,
        job_type=JOB_TYPE,
        queue=_QUEUE,
        arguments={},
        guarantee=Guarantee.IDEMPOTENT,
        policy=JobPolicy(),
        source=event.source,
        traceparent=event.traceparent,
        tracestate=event.tracestate,
        requested_at=event.time or now,
        accepted_at=now,
        state=JobState.CANCELLED,
        watchers=(data.reply_to,) if data.reply_to else (),
        cancel_reason=data.reason,
        finished_at=now,
        updated_at=now,
    )
