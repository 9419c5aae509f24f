"""An attempt went wrong: another one, or the end. Pure."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from warrener_contracts.events import (
    AttemptCancelled,
    AttemptFailed,
    AttemptLost,
    AttemptReleased,
    AttemptSucceeded,
    ErrorInfo,
    ErrorKind,
    Event,
)
from warrener_contracts.state_machine import Signal
from warrener_contracts.retryability import is_unknown_job_type, non_retryable_reason
from warrener_contracts.states import JobState
from warrener_store.job_row import evolve
from warrener_store.rows import AttemptEnd, AttemptRow, JobRow
from warrener_supervisor import delays, ends, held, poison
from warrener_supervisor.last_seen import seen_before
from warrener_supervisor.moment import Moment
from warrener_supervisor.timeouts import overran, seen_overrunning, too_long
from warrener_supervisor.verdicts import Judgement, Tell


def failed(row: JobRow, event: AttemptFailed, at: Moment) -> Judgement:
    """The handler failed; the attempt is charged. Whether it may be tried again say its error and the policy,
    unless the handler itself has asked for it."""
    data = event.data
    if is_unknown_job_type(data.error):
        return _unknown_there(row, event, at)
    charged = evolve(row, failures=row.failures + 1, error=poison.told(row, data.error))
    record = _record(row, AttemptEnd.FAILED, at, data.agent_id, data.error)
    record = replace(record, started_at=data.started_at, finished_at=data.finished_at)
    if why := poison.quarantined(charged):
        return _last(charged, record, why, at)
    wish = None if data.retry_after_seconds is None else delays.wished(data.retry_after_seconds)
    wishes = data.error.retryable and wish is not None
    if not wishes and (why := non_retryable_reason(data.error, row.policy)):
        return _last(charged, record, why, at)
    return _tried(row, charged, record, at, wish)


def _unknown_there(row: JobRow, event: AttemptFailed, at: Moment) -> Judgement:
    """Its agent does not know the job type, as during a deployment: given back, uncharged, until one that
    does comes, or the job's own limits end it."""
    record = _record(row, AttemptEnd.RELEASED, at, event.data.agent_id, event.data.error)
    if row.cancel_reason is not None:
        return ends.cancelled(row, record, at.now)
    ruling = _again_unless_old(evolve(row, error=event.data.error), record, delays.until_known(row), at)
    if ruling.attempt is None or ruling.row.state is not JobState.RETRYING:
        return ruling
    verdict = f"{event.data.agent_id} does not know {row.job_type}: {ruling.attempt.verdict}"
    told = replace(ruling.attempt, verdict=verdict)
    return ruling._replace(verdict="given back", attempt=told, tells=frozenset({Tell.DISPATCH}))


def _timed_out(row: JobRow, record: AttemptRow, error: ErrorInfo, at: Moment) -> Judgement:
    """It ran too long and is dead now; charged like a failure."""
    charged = evolve(row, failures=row.failures + 1, error=error)
    record = replace(record, end=AttemptEnd.TIMED_OUT, error=error)
    if why := non_retryable_reason(error, row.policy):
        return _last(charged, record, why, at)
    return _tried(row, charged, record, at)


def lost(row: JobRow, event: AttemptLost, at: Moment) -> Judgement:
    """Its agent is gone. Not the job's fault, so counted apart; but a job that ends every agent must end
    too."""
    since = event.data.last_seen_at.isoformat()
    message = poison.silence(event.data.agent_id, since, unlisted=event.data.unlisted)
    error = ErrorInfo(kind=ErrorKind.LOST, type=poison.LOST, message=message)
    charged = evolve(row, losses=row.losses + 1, error=poison.told(row, error))
    record = _record(row, AttemptEnd.LOST, at, event.data.agent_id, error)
    if row.cancel_reason is not None:
        ruling = ends.cancelled(charged, record, at.now)
        return ruling._replace(tells=ends.tidings(JobState.CANCELLED, Signal.LOST))
    if seen_overrunning(row, event.data.last_seen_at, at.now, at.rules):
        error = too_long(row, f"agent {event.data.agent_id} has not named it since {since}")
        return _timed_out(row, record, error, at)
    if why := poison.quarantined(charged):
        return _last(charged, record, why, at)
    if charged.losses > row.policy.max_losses:
        return _last(charged, record, f"lost with its agent {charged.losses} times", at)
    return _again_unless_old(charged, record, _elsewhere_after(charged, at), at)


_ENDS = (AttemptSucceeded, AttemptFailed, AttemptCancelled)
"""Not a release: what is given back because a later attempt took its place would be tried without end."""


def not_lost(row: JobRow, event: Event[Any], at: Moment) -> Judgement | None:
    """The agent reports the end of an earlier attempt that was declared lost: the loss is not charged. A
    failure is charged in its place, or a handler that fails late would never run out of attempts; the attempt
    that is under way may still end well, so it is left to it to be the last."""
    if row.state.terminal or not isinstance(event, _ENDS):
        return None
    spared = poison.not_lost(row, event.data.attempt, event.data.agent_id)
    if spared is None:
        return None
    failed_late = isinstance(event, AttemptFailed) and not event.data.snoozed
    failures = min(row.failures + failed_late, max(row.failures, row.policy.max_attempts - 1))
    return Judgement(evolve(spared, failures=failures, updated_at=at.now), "not lost")


def _elsewhere_after(charged: JobRow, at: Moment) -> timedelta:
    """At once, for it has done nothing wrong. Only what is lost again and again, as if it ended its agents,
    gives them time."""
    again = charged.losses - 1
    return charged.policy.backoff.delay(again, at.chance) if again else timedelta(0)


def released(row: JobRow, event: AttemptReleased, at: Moment) -> Judgement:
    """Given back unharmed: another agent may have it at once, and nothing is charged."""
    record = _record(row, AttemptEnd.RELEASED, at, event.data.agent_id, None)
    if row.cancel_reason is not None:
        return ends.cancelled(row, record, at.now)
    ruling = _again(row, record, timedelta(0), at)
    return ruling._replace(tells=frozenset({Tell.DISPATCH}))


def stopped(row: JobRow, event: AttemptCancelled, at: Moment) -> Judgement:
    """Stopped because somebody asked. If nobody did, the agent was mistaken: charged, or it would go on for
    ever."""
    data = event.data
    record = _record(row, AttemptEnd.CANCELLED, at, data.agent_id, seen_before(data))
    record = replace(record, started_at=data.started_at, finished_at=data.finished_at)
    if row.cancel_reason is not None:
        return ends.cancelled(row, record, at.now)
    if overran(row, at.now, at.rules):
        how = f"agent {data.agent_id} has stopped it when it was told to"
        return _timed_out(row, record, too_long(row, how, data.flight_record), at)
    message = f"agent {data.agent_id} stopped it, and nobody had asked for that: {data.reason}"
    error = ErrorInfo(kind=ErrorKind.ERROR, type="stopped", message=message, flight_record=data.flight_record)
    charged = evolve(row, failures=row.failures + 1, error=error)
    if charged.failures >= row.policy.max_attempts:
        return ends.cancelled(charged, replace(record, error=error), at.now)
    delay = row.policy.backoff.delay(charged.failures, at.chance)
    return _again(charged, replace(record, error=error), delay, at)


def _tried(
    row: JobRow, charged: JobRow, record: AttemptRow, at: Moment, wish: timedelta | None = None
) -> Judgement:
    """Charged, unless a breaker has opened meanwhile: then the job is not to blame. A delay that its handler
    has wished for is kept either way."""
    breaker = held.not_charged(row, charged.error, at)
    if breaker is None:
        delay = row.policy.backoff.delay(charged.failures, at.chance) if wish is None else wish
        return _again_if_left(charged, record, delay, at)
    spared = evolve(row, error=charged.error)
    return held.said_of(breaker, _again_unless_old(spared, record, wish or timedelta(0), at))


def _again_if_left(charged: JobRow, record: AttemptRow, delay: timedelta, at: Moment) -> Judgement:
    if charged.cancel_reason is not None:
        return ends.cancelled(charged, record, at.now)
    if charged.failures >= charged.policy.max_attempts:
        return _last(charged, record, f"its {charged.policy.max_attempts} attempts are used up", at)
    return _again_unless_old(charged, record, delay, at)


def _again(charged: JobRow, record: AttemptRow, delay: timedelta, at: Moment) -> Judgement:
    """Attempt n+1, due after `delay`; the row is the truth about that, the ladder only wakes it."""
    wait = max(delay, at.rules.shortest_delay) if delay else delay
    due_at = at.now + wait
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
        wake_at=held.looked_at(charged, due_at, at),
        dispatched_at=at.now,
        updated_at=at.now,
    )
    if held.kept_in_store(row, at.now, at.rules):
        row = evolve(row, dispatched_at=None)  # the broker does not have it
    return Judgement(
        row,
        "retry",
        attempt=replace(record, verdict=f"retry at {due_at.isoformat()}"),
        tells=frozenset({Tell.DISPATCH, Tell.RETRYING}),
    )


def _last(charged: JobRow, record: AttemptRow, reason: str, at: Moment) -> Judgement:
    if charged.cancel_reason is not None:
        return ends.cancelled(charged, record, at.now)
    return ends.dead(charged, record, reason, at.now)


def _record(row: JobRow, end: AttemptEnd, at: Moment, agent_id: str, error: ErrorInfo | None) -> AttemptRow:
    return AttemptRow(
        job_id=row.job_id,
        attempt=row.attempt,
        end=end,
        agent_id=agent_id,
        dispatched_at=row.dispatched_at,
        started_at=row.started_at,
        finished_at=at.now,
        error=error,
        verdict="",
    )


def _again_unless_old(charged: JobRow, record: AttemptRow, delay: timedelta, at: Moment) -> Judgement:
    """No attempt begins past the greatest age of its job."""
    if why := delays.too_old(charged, at.now + delay):
        return _last(charged, record, why, at)
    return _again(charged, record, delay, at)


def snoozed(row: JobRow, event: AttemptFailed, at: Moment) -> Judgement:
    """The handler asks to be run again later. Not charged, but for one that would do nothing else for ever;
    never at once, or it would spin."""
    data = event.data
    delay = max(delays.wished(data.retry_after_seconds or 0.0), at.rules.shortest_delay)
    record = _record(row, AttemptEnd.SNOOZED, at, data.agent_id, None)
    record = replace(record, started_at=data.started_at, finished_at=data.finished_at)
    if delays.snoozes(row, at) >= row.policy.max_snoozes:
        most = f"it has snoozed {row.policy.max_snoozes} times"
        error = _snoozed_out(most, data.error)
        charged = evolve(row, failures=row.failures + 1, error=error)
        return _again_if_left(charged, replace(record, error=error), delay, at)
    if row.cancel_reason is not None:
        return ends.cancelled(row, record, at.now)
    if why := delays.too_old(row, at.now + delay):
        error = _snoozed_out(why, data.error)
        return _last(evolve(row, error=error), replace(record, error=error), why, at)
    ruling = _again(row, record, delay, at)
    until = f"snoozed until {(at.now + delay).isoformat()}: {data.error.message}"
    return ruling._replace(
        verdict="snoozed",
        attempt=replace(record, verdict=until),
        tells=frozenset({Tell.DISPATCH}),  # nothing went wrong: the world is told of no retry
    )


def _snoozed_out(why: str, asked: ErrorInfo) -> ErrorInfo:
    return ErrorInfo(kind=ErrorKind.ERROR, type="snoozed", message=f"{why}; {asked.message}")


def withdrawn(row: JobRow, event: AttemptCancelled, at: Moment) -> Judgement:
    """The handler has ended the job itself."""
    data = event.data
    record = _record(row, AttemptEnd.CANCELLED, at, data.agent_id, None)
    record = replace(record, started_at=data.started_at, finished_at=data.finished_at)
    reason = row.cancel_reason or f"by its handler: {data.reason}"
    return ends.cancelled(evolve(row, cancel_reason=reason), record, at.now)
