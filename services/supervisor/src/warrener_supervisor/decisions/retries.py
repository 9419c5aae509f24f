"""Decide what follows an attempt without success: another attempt, or the job's end."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from warrener_contracts import events
from warrener_contracts.retryability import CODE_CHANGED, is_unrunnable_here, non_retryable_reason
from warrener_contracts.state_machine import JobState, Signal
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobRow, evolve
from warrener_store.jobs.rules import CHOSEN
from warrener_supervisor.decisions import delays, outcomes, poison, retry_rules
from warrener_supervisor.decisions.context import JobTransition, JudgeContext, Notification
from warrener_supervisor.decisions.outcomes import attempt_record
from warrener_supervisor.decisions.timeouts import has_overrun, timeout_error, was_overrunning


def on_failed(row: JobRow, event: events.AttemptFailed, context: JudgeContext) -> JobTransition:
    """Charge a failed attempt. Its error, the policy and the handler decide if another one follows."""
    data = event.data
    if is_unrunnable_here(data.error):
        return _on_unrunnable_here(row, event, context)
    if data.error.kind is events.ErrorKind.LOST:
        found = _ended(row, AttemptOutcome.LOST, data, data.error)
        # The event is of the agent that found it lost, and dated then; the row knows who ran it since when.
        lost = replace(
            found,
            agent_id=row.agent_id or found.agent_id,
            started_at=row.started_at or found.started_at,
            finished_at=max(row.started_at or data.finished_at, data.finished_at),
        )
        return _charge_loss(row, data.error, lost, context)
    charged = evolve(row, failures=row.failures + 1, error=poison.error_with_deaths(row, data.error))
    record = _ended(row, AttemptOutcome.FAILED, data, data.error)
    if why := poison.quarantine_reason(charged):
        return _end_job(charged, record, why, context)
    seconds = data.retry_after_seconds
    is_requested = data.error.retryable and seconds is not None
    if not is_requested and (why := non_retryable_reason(data.error, row.policy)):
        return _end_job(charged, record, why, context)
    requested_by_handler = None if seconds is None else delays.requested_delay(seconds)
    return _retry_unless_held(row, charged, record, context, requested_by_handler)


def on_snoozed(row: JobRow, event: events.AttemptFailed, context: JudgeContext) -> JobTransition:
    """Run the job again later: uncharged up to `max_snoozes`, and never at once, or it would spin."""
    data = event.data
    delay = max(delays.requested_delay(data.retry_after_seconds or 0.0), context.timings.min_queue_delay)
    record = _ended(row, AttemptOutcome.SNOOZED, data)
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
        # nothing went wrong, so no job.retrying is published
        notifications=frozenset({Notification.DISPATCH}),
    )


def on_lost(row: JobRow, event: events.AttemptLost, context: JudgeContext) -> JobTransition:
    """Count the loss, or the timeout if the attempt had run too long before its agent fell silent."""
    since = event.data.last_seen_at.isoformat()
    message = poison.loss_message(event.data.agent_id, since, not_in_heartbeat=event.data.not_in_heartbeat)
    error = events.ErrorInfo(kind=events.ErrorKind.LOST, type=poison.LOST, message=message)
    record = attempt_record(row, AttemptOutcome.LOST, context.now, event.data.agent_id, error=error)
    overran = was_overrunning(row, event.data.last_seen_at, context.now, context.timings)
    if row.cancel_reason is None and overran:
        error = timeout_error(row, f"agent {event.data.agent_id} has not named it since {since}")
        return _refuse_later_claims(_timed_out(row, record, error, context))
    return _charge_loss(row, error, record, context)


def _charge_loss(
    row: JobRow, error: events.ErrorInfo, record: AttemptRow, context: JudgeContext
) -> JobTransition:
    """Count the loss apart from failures: it is not the job's fault. A job that ends every agent ends too."""
    charged = evolve(row, losses=row.losses + 1, error=poison.error_with_deaths(row, error))
    why = poison.quarantine_reason(charged)
    if why is None and charged.losses > row.policy.max_lost_attempts:
        why = f"lost with its agent {charged.losses} times"
    if why is not None or row.cancel_reason is not None:
        return _refuse_later_claims(_end_job(charged, record, why or "", context))
    # A first loss is retried at once; repeated losses, which may end agents, wait longer each time.
    again = charged.losses - 1
    delay = charged.policy.backoff.delay(again, context.chance) if again else timedelta(0)
    return _refuse_later_claims(_retry_unless_too_old(charged, record, delay, context))


def _refuse_later_claims(decision: JobTransition) -> JobTransition:
    """If the job ends, have every agent refuse it: nobody has acknowledged the lost attempt's dispatch."""
    if not decision.row.state.terminal:
        return decision
    return decision._replace(notifications=outcomes.notifications_for(decision.row.state, Signal.LOST))


def revoke_loss(row: JobRow, event: events.Event[Any], context: JudgeContext) -> JobTransition | None:
    """Revoke the loss of an earlier attempt whose agent reports its end after all.

    A late failure is charged in its place, or a handler that fails late would never run out of attempts.
    The attempt under way may still succeed, so a late failure leaves it at least as the last one.
    """
    if (row.ending or row.state).terminal or not isinstance(event, _ENDS):
        return None
    spared = poison.revoke_loss(row, event.data.attempt, event.data.agent_id)
    if spared is None:
        return None
    failed_late = isinstance(event, events.AttemptFailed) and not event.data.snoozed
    failures = min(row.failures + failed_late, max(row.failures, row.policy.max_attempts - 1))
    return JobTransition(evolve(spared, failures=failures, updated_at=context.now), "not lost")


def on_released(row: JobRow, event: events.AttemptReleased, context: JudgeContext) -> JobTransition:
    """Dispatch a released attempt at once to another agent, uncharged."""
    record = attempt_record(row, AttemptOutcome.RELEASED, context.now, event.data.agent_id)
    if row.cancel_reason is not None:
        return outcomes.end_cancelled(row, record, context.now)
    decision = _retry(row, record, timedelta(0), context)
    breaker = context.holding.find_blocking(row.job_type, row.policy, row.queue)
    if breaker is not None:  # as its agent knew, too
        decision = delays.annotate(breaker, decision)
    return decision._replace(notifications=frozenset({Notification.DISPATCH}))


def on_stopped(row: JobRow, event: events.AttemptCancelled, context: JudgeContext) -> JobTransition:
    """End a job that was stopped on request. An unrequested stop is charged, so that it cannot go on."""
    data = event.data
    seen: events.ErrorInfo | None = None
    if data.flight_record is not None:
        seen = events.ErrorInfo(
            kind=events.ErrorKind.ERROR,
            type="cancelled",
            message=data.reason,
            retryable=False,
            flight_record=data.flight_record,
        )
    record = _ended(row, AttemptOutcome.CANCELLED, data, seen)
    if row.cancel_reason is not None:
        return outcomes.end_cancelled(row, record, context.now)
    if has_overrun(row, context.now, context.timings):
        how = f"agent {data.agent_id} has stopped it on request"
        return _timed_out(row, record, timeout_error(row, how, data.flight_record), context)
    message = f"agent {data.agent_id} stopped it, and nobody had requested that: {data.reason}"
    error = events.ErrorInfo(
        kind=events.ErrorKind.ERROR, type="stopped", message=message, flight_record=data.flight_record
    )
    charged = evolve(row, failures=row.failures + 1, error=error)
    if charged.failures >= row.policy.max_attempts:
        return outcomes.end_cancelled(charged, replace(record, error=error), context.now)
    delay = row.policy.backoff.delay(charged.failures, context.chance)
    return _retry(charged, replace(record, error=error), delay, context)


def on_withdrawn(row: JobRow, event: events.AttemptCancelled, context: JudgeContext) -> JobTransition:
    """End the job, as its handler requests."""
    data = event.data
    record = _ended(row, AttemptOutcome.CANCELLED, data)
    reason = row.cancel_reason or f"by its handler: {data.reason}"
    return outcomes.end_cancelled(evolve(row, cancel_reason=reason), record, context.now)


def _on_unrunnable_here(row: JobRow, event: events.AttemptFailed, context: JudgeContext) -> JobTransition:
    """Retry uncharged until an agent has the code of the job type, as in a deployment, or a limit ends the
    job."""
    record = attempt_record(
        row, AttemptOutcome.RELEASED, context.now, event.data.agent_id, error=event.data.error
    )
    if row.cancel_reason is not None:
        return outcomes.end_cancelled(row, record, context.now)
    delay = delays.unknown_type_delay(row, context)
    decision = _retry_unless_too_old(evolve(row, error=event.data.error), record, delay, context)
    if decision.attempt is None or decision.row.state is not JobState.RETRYING:
        return decision
    cannot = "has no fitting code of" if event.data.error.type == CODE_CHANGED else "does not know"
    verdict = f"{event.data.agent_id} {cannot} {row.job_type}: {decision.attempt.verdict}"
    annotated = replace(decision.attempt, verdict=verdict)
    return decision._replace(
        row=delays.await_announcement(decision.row, delay, context),
        verdict="given back",
        attempt=annotated,
        notifications=frozenset({Notification.DISPATCH}),
    )


def _timed_out(
    row: JobRow, record: AttemptRow, error: events.ErrorInfo, context: JudgeContext
) -> JobTransition:
    """Charge an attempt that ran too long and has ended."""
    charged = evolve(row, failures=row.failures + 1, error=error)
    record = replace(record, outcome=AttemptOutcome.TIMED_OUT, error=error)
    if why := non_retryable_reason(error, row.policy):
        return _end_job(charged, record, why, context)
    return _retry_unless_held(row, charged, record, context)


_ENDS = (events.AttemptSucceeded, events.AttemptSuspended, events.AttemptFailed, events.AttemptCancelled)
"""Not a release: an attempt that is given back because a later one took its place would be tried without
end."""


def _retry_unless_held(
    row: JobRow,
    charged: JobRow,
    record: AttemptRow,
    context: JudgeContext,
    requested_by_handler: timedelta | None = None,
) -> JobTransition:
    """Charge the attempt unless a breaker has opened; a delay of the handler counts either way."""
    breaker, delay = delays.breaker_to_blame(row, charged.error, context), requested_by_handler
    if breaker is None:
        if delay is None:
            delay = row.policy.backoff.delay(charged.failures, context.chance)
        return _retry_if_attempts_left(charged, record, delay, context)
    spared = evolve(row, error=charged.error)
    return delays.annotate(breaker, _retry_unless_too_old(spared, record, delay or timedelta(0), context))


def _retry_if_attempts_left(
    charged: JobRow, record: AttemptRow, delay: timedelta, context: JudgeContext
) -> JobTransition:
    if charged.cancel_reason is not None:
        return outcomes.end_cancelled(charged, record, context.now)
    if charged.failures >= charged.policy.max_attempts:
        return _end_job(charged, record, f"its {charged.policy.max_attempts} attempts are used up", context)
    return _retry_unless_too_old(charged, record, delay, context)


def _retry(charged: JobRow, record: AttemptRow, delay: timedelta, context: JudgeContext) -> JobTransition:
    """Make attempt n+1, due after `delay`. The row is the truth about that; a delay queue only wakes it."""
    wait = max(delay, context.timings.min_queue_delay) if delay else delay
    charged, chosen = retry_rules.choose_next(charged, record, context.failed.get(charged.job_id, ()))
    due_at = context.now + wait
    row = evolve(
        charged,
        state=JobState.RETRYING,
        attempt=charged.attempt + 1,
        agent_id=None,
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
        attempt=replace(record, verdict=f"retry at {due_at.isoformat()}{chosen and CHOSEN + chosen}"),
        notifications=frozenset({Notification.DISPATCH, Notification.RETRYING}),
    )


def _end_job(charged: JobRow, record: AttemptRow, reason: str, context: JudgeContext) -> JobTransition:
    if charged.cancel_reason is not None:
        return outcomes.end_cancelled(charged, record, context.now)
    return outcomes.end_dead(charged, record, reason, context.now)


def _ended(
    row: JobRow,
    end: AttemptOutcome,
    data: events.AttemptFailedData | events.AttemptCancelledData,
    error: events.ErrorInfo | None = None,
) -> AttemptRow:
    return attempt_record(row, end, data.finished_at, data.agent_id, started_at=data.started_at, error=error)


def _retry_unless_too_old(
    charged: JobRow, record: AttemptRow, delay: timedelta, context: JudgeContext
) -> JobTransition:
    """Retry if the attempt can begin before the job's max_age."""
    if why := delays.exceeds_max_age(charged, context.now + delay):
        return _end_job(charged, record, why, context)
    return _retry(charged, record, delay, context)


def _snoozed_out(why: str, handler_error: events.ErrorInfo) -> events.ErrorInfo:
    return events.ErrorInfo(
        kind=events.ErrorKind.ERROR, type="snoozed", message=f"{why}; {handler_error.message}"
    )
