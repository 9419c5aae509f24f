"""DOC"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from warrener_contracts.events import (
    AttemptCancelled,
    AttemptCancelledData,
    AttemptFailed,
    AttemptLost,
    AttemptReleased,
    AttemptSucceeded,
    ErrorInfo,
    ErrorKind,
    Event,
)
from warrener_contracts.retryability import is_unknown_job_type, non_retryable_reason
from warrener_contracts.state_machine import Signal
from warrener_contracts.states import JobState
from warrener_store.job_row import evolve
from warrener_store.rows import AttemptEnd, AttemptRow, JobRow
from warrener_supervisor.decisions import delays, outcomes, poison
from warrener_supervisor.decisions.context import JobTransition, JudgeContext, Notification
from warrener_supervisor.decisions.timeouts import has_overrun, timeout_error, was_overrunning


def on_failed(row: JobRow, event: AttemptFailed, context: JudgeContext) -> JobTransition:
    """The handler failed; the attempt is charged. Whether it may be tried again say its error and the policy,
    unless the handler itself has asked for it."""
    data = event.data
    if is_unknown_job_type(data.error):
        return _on_unknown_job_type(row, event, context)
    charged = evolve(row, failures=row.failures + 1, error=poison.error_with_deaths(row, data.error))
    record = _record(row, AttemptEnd.FAILED, context, data.agent_id, data.error)
    record = replace(record, started_at=data.started_at, finished_at=data.finished_at)
    if why := poison.quarantine_reason(charged):
        return _end_job(charged, record, why, context)
    requested_by_handler = (
        None if data.retry_after_seconds is None else delays.requested_delay(data.retry_after_seconds)
    )
    is_requested = data.error.retryable and requested_by_handler is not None
    if not is_requested and (why := non_retryable_reason(data.error, row.policy)):
        return _end_job(charged, record, why, context)
    return _retry_unless_held(row, charged, record, context, requested_by_handler)


def on_snoozed(row: JobRow, event: AttemptFailed, context: JudgeContext) -> JobTransition:
    """The handler asks to be run again later. Not charged, but for one that would do nothing else for ever;
    never at once, or it would spin."""
    data = event.data
    delay = max(delays.requested_delay(data.retry_after_seconds or 0.0), context.timings.min_queue_delay)
    record = _record(row, AttemptEnd.SNOOZED, context, data.agent_id, None)
    record = replace(record, started_at=data.started_at, finished_at=data.finished_at)
    if delays.count_snoozes(row, context) >= row.policy.max_snoozes:
        most = f"it has snoozed {row.policy.max_snoozes} times"
        error = _snoozed_out(most, data.error)
        charged = evolve(row, failures=row.failures + 1, error=error)
        return _retry_if_attempts_left(charged, replace(record, error=error), delay, context)
    if row.cancel_reason is not None:
        return outcomes.end_cancelled(row, record, context.now)
    if why := delays.exceeds_max_age(row, context.now + delay):
        error = _snoozed_out(why, data.error)
        return _end_job(evolve(row, error=error), replace(record, error=error), why, context)
    decision = _retry(row, record, delay, context)
    until = f"snoozed until {(context.now + delay).isoformat()}: {data.error.message}"
    return decision._replace(
        verdict="snoozed",
        attempt=replace(record, verdict=until),
        notifications=frozenset({Notification.DISPATCH}),  # nothing went wrong: the world is told of no retry
    )


def on_lost(row: JobRow, event: AttemptLost, context: JudgeContext) -> JobTransition:
    """Its agent is gone. Not the job's fault, so counted apart; but a job that ends every agent must end
    too."""
    since = event.data.last_seen_at.isoformat()
    message = poison.loss_message(event.data.agent_id, since, unlisted=event.data.unlisted)
    error = ErrorInfo(kind=ErrorKind.LOST, type=poison.LOST, message=message)
    charged = evolve(row, losses=row.losses + 1, error=poison.error_with_deaths(row, error))
    record = _record(row, AttemptEnd.LOST, context, event.data.agent_id, error)
    if row.cancel_reason is not None:
        decision = outcomes.end_cancelled(charged, record, context.now)
        return decision._replace(notifications=outcomes.notifications_for(JobState.CANCELLED, Signal.LOST))
    if was_overrunning(row, event.data.last_seen_at, context.now, context.timings):
        error = timeout_error(row, f"agent {event.data.agent_id} has not named it since {since}")
        return _timed_out(row, record, error, context)
    if why := poison.quarantine_reason(charged):
        return _end_job(charged, record, why, context)
    if charged.losses > row.policy.max_losses:
        return _end_job(charged, record, f"lost with its agent {charged.losses} times", context)
    return _retry_unless_too_old(charged, record, _delay_after_loss(charged, context), context)


def revoke_loss(row: JobRow, event: Event[Any], context: JudgeContext) -> JobTransition | None:
    """The agent reports the end of an earlier attempt that was declared lost: the loss is not charged. A
    failure is charged in its place, or a handler that fails late would never run out of attempts; the attempt
    that is under way may still end well, so it is left to it to be the last."""
    if row.state.terminal or not isinstance(event, _ENDS):
        return None
    spared = poison.revoke_loss(row, event.data.attempt, event.data.agent_id)
    if spared is None:
        return None
    failed_late = isinstance(event, AttemptFailed) and not event.data.snoozed
    failures = min(row.failures + failed_late, max(row.failures, row.policy.max_attempts - 1))
    return JobTransition(evolve(spared, failures=failures, updated_at=context.now), "not lost")


def on_released(row: JobRow, event: AttemptReleased, context: JudgeContext) -> JobTransition:
    """Given back unharmed: another agent may have it at once, and nothing is charged."""
    record = _record(row, AttemptEnd.RELEASED, context, event.data.agent_id, None)
    if row.cancel_reason is not None:
        return outcomes.end_cancelled(row, record, context.now)
    decision = _retry(row, record, timedelta(0), context)
    return decision._replace(notifications=frozenset({Notification.DISPATCH}))


def on_stopped(row: JobRow, event: AttemptCancelled, context: JudgeContext) -> JobTransition:
    """Stopped because somebody asked. If nobody did, the agent was mistaken: charged, or it would go on for
    ever."""
    data = event.data
    record = _record(row, AttemptEnd.CANCELLED, context, data.agent_id, flight_record_error(data))
    record = replace(record, started_at=data.started_at, finished_at=data.finished_at)
    if row.cancel_reason is not None:
        return outcomes.end_cancelled(row, record, context.now)
    if has_overrun(row, context.now, context.timings):
        how = f"agent {data.agent_id} has stopped it when it was told to"
        return _timed_out(row, record, timeout_error(row, how, data.flight_record), context)
    message = f"agent {data.agent_id} stopped it, and nobody had asked for that: {data.reason}"
    error = ErrorInfo(kind=ErrorKind.ERROR, type="stopped", message=message, flight_record=data.flight_record)
    charged = evolve(row, failures=row.failures + 1, error=error)
    if charged.failures >= row.policy.max_attempts:
        return outcomes.end_cancelled(charged, replace(record, error=error), context.now)
    delay = row.policy.backoff.delay(charged.failures, context.chance)
    return _retry(charged, replace(record, error=error), delay, context)


def on_withdrawn(row: JobRow, event: AttemptCancelled, context: JudgeContext) -> JobTransition:
    """The handler has ended the job itself."""
    data = event.data
    record = _record(row, AttemptEnd.CANCELLED, context, data.agent_id, None)
    record = replace(record, started_at=data.started_at, finished_at=data.finished_at)
    reason = row.cancel_reason or f"by its handler: {data.reason}"
    return outcomes.end_cancelled(evolve(row, cancel_reason=reason), record, context.now)


def _on_unknown_job_type(row: JobRow, event: AttemptFailed, context: JudgeContext) -> JobTransition:
    """Its agent does not know the job type, as during a deployment: given back, uncharged, until one that
    does comes, or the job's own limits end it."""
    record = _record(row, AttemptEnd.RELEASED, context, event.data.agent_id, event.data.error)
    if row.cancel_reason is not None:
        return outcomes.end_cancelled(row, record, context.now)
    decision = _retry_unless_too_old(
        evolve(row, error=event.data.error), record, delays.unknown_type_delay(row), context
    )
    if decision.attempt is None or decision.row.state is not JobState.RETRYING:
        return decision
    verdict = f"{event.data.agent_id} does not know {row.job_type}: {decision.attempt.verdict}"
    annotated = replace(decision.attempt, verdict=verdict)
    return decision._replace(
        verdict="given back", attempt=annotated, notifications=frozenset({Notification.DISPATCH})
    )


def _timed_out(row: JobRow, record: AttemptRow, error: ErrorInfo, context: JudgeContext) -> JobTransition:
    """It ran too long and is dead now; charged like a failure."""
    charged = evolve(row, failures=row.failures + 1, error=error)
    record = replace(record, end=AttemptEnd.TIMED_OUT, error=error)
    if why := non_retryable_reason(error, row.policy):
        return _end_job(charged, record, why, context)
    return _retry_unless_held(row, charged, record, context)


_ENDS = (AttemptSucceeded, AttemptFailed, AttemptCancelled)
"""Not a release: what is given back because a later attempt took its place would be tried without end."""


def _delay_after_loss(charged: JobRow, context: JudgeContext) -> timedelta:
    """At once, for it has done nothing wrong. Only what is lost again and again, as if it ended its agents,
    gives them time."""
    again = charged.losses - 1
    return charged.policy.backoff.delay(again, context.chance) if again else timedelta(0)


def _retry_unless_held(
    row: JobRow,
    charged: JobRow,
    record: AttemptRow,
    context: JudgeContext,
    requested_by_handler: timedelta | None = None,
) -> JobTransition:
    """Charged, unless a breaker has opened meanwhile: then the job is not to blame. A delay that its handler
    has wished for is kept either way."""
    breaker = delays.breaker_to_blame(row, charged.error, context)
    if breaker is None:
        delay = (
            row.policy.backoff.delay(charged.failures, context.chance)
            if requested_by_handler is None
            else requested_by_handler
        )
        return _retry_if_attempts_left(charged, record, delay, context)
    spared = evolve(row, error=charged.error)
    return delays.annotate(
        breaker, _retry_unless_too_old(spared, record, requested_by_handler or timedelta(0), context)
    )


def _retry_if_attempts_left(
    charged: JobRow, record: AttemptRow, delay: timedelta, context: JudgeContext
) -> JobTransition:
    if charged.cancel_reason is not None:
        return outcomes.end_cancelled(charged, record, context.now)
    if charged.failures >= charged.policy.max_attempts:
        return _end_job(charged, record, f"its {charged.policy.max_attempts} attempts are used up", context)
    return _retry_unless_too_old(charged, record, delay, context)


def _retry(charged: JobRow, record: AttemptRow, delay: timedelta, context: JudgeContext) -> JobTransition:
    """Attempt n+1, due after `delay`; the row is the truth about that, the ladder only wakes it."""
    wait = max(delay, context.timings.min_queue_delay) if delay else delay
    due_at = context.now + wait
    row = evolve(
        charged,
        state=JobState.RETRYING,
        attempt=charged.attempt + 1,
        owner=None,
        started_at=None,
        lease_until=None,
        progress=None,
        progress_note=None,
        due_at=due_at,
        wake_at=delays.recheck_at(charged, due_at, context),
        dispatched_at=context.now,
        updated_at=context.now,
    )
    if delays.is_stored_only(row, context.now, context.timings):
        row = evolve(row, dispatched_at=None)  # the broker does not have it
    return JobTransition(
        row,
        "retry",
        attempt=replace(record, verdict=f"retry at {due_at.isoformat()}"),
        notifications=frozenset({Notification.DISPATCH, Notification.RETRYING}),
    )


def _end_job(charged: JobRow, record: AttemptRow, reason: str, context: JudgeContext) -> JobTransition:
    if charged.cancel_reason is not None:
        return outcomes.end_cancelled(charged, record, context.now)
    return outcomes.end_dead(charged, record, reason, context.now)


def _record(
    row: JobRow, end: AttemptEnd, context: JudgeContext, agent_id: str, error: ErrorInfo | None
) -> AttemptRow:
    return AttemptRow(
        job_id=row.job_id,
        attempt=row.attempt,
        end=end,
        agent_id=agent_id,
        dispatched_at=row.dispatched_at,
        started_at=row.started_at,
        finished_at=context.now,
        error=error,
        verdict="",
    )


def _retry_unless_too_old(
    charged: JobRow, record: AttemptRow, delay: timedelta, context: JudgeContext
) -> JobTransition:
    """No attempt begins past the greatest age of its job."""
    if why := delays.exceeds_max_age(charged, context.now + delay):
        return _end_job(charged, record, why, context)
    return _retry(charged, record, delay, context)


def _snoozed_out(why: str, handler_error: ErrorInfo) -> ErrorInfo:
    return ErrorInfo(kind=ErrorKind.ERROR, type="snoozed", message=f"{why}; {handler_error.message}")


def flight_record_error(data: AttemptCancelledData) -> ErrorInfo | None:
    """What its row keeps: the flight record, where there is one."""
    if data.flight_record is None:
        return None
    return ErrorInfo(
        kind=ErrorKind.ERROR,
        type="cancelled",
        message=data.reason,
        retryable=False,
        flight_record=data.flight_record,
    )
