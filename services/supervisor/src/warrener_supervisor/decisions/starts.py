"""How a job gets to run: signs of life, and retries whose time has passed."""

from datetime import datetime
from typing import Any

from warrener_contracts import events
from warrener_contracts.state_machine import JobState, Signal
from warrener_store.breakers.gate import RECHECK_INTERVAL
from warrener_store.gates.rows import takes_turns
from warrener_store.jobs.rows import AttemptOutcome, JobRow, evolve
from warrener_supervisor.decisions import outcomes, poison
from warrener_supervisor.decisions.context import (
    NO_NOTIFICATIONS,
    JobTransition,
    JudgeContext,
    NoChange,
    Notification,
    Timings,
)

SignOfLife = events.AttemptStarted | events.AttemptProgressed | events.AttemptCheckpointed


def on_sign_of_life(row: JobRow, event: SignOfLife, context: JudgeContext) -> JobTransition | NoChange:
    """Record that the agent runs the attempt, which renews its lease, and its progress if it reports any.

    If cancellation was requested, the agent took the attempt over and does not know, so the cancel is
    repeated.
    """
    started_at = _started_at(row, event, context.now)
    if _another_holds(row, event, started_at):
        return NoChange(f"the attempt is held by {row.agent_id}, not by {event.data.agent_id}")
    if _taken_over(row, event, context.now):
        row = poison.charge_agent_death(row)
        why = poison.quarantine_reason(row)
        if why is not None and row.cancel_reason is None:  # the cancel below stops a cancelled one
            record = outcomes.attempt_record(
                row, AttemptOutcome.LOST, context.now, row.agent_id, error=row.error
            )
            stop = outcomes.notifications_for(JobState.DEAD, Signal.ALIVE)
            return outcomes.end_dead(row, record, why, context.now)._replace(notifications=stop)
    running = evolve(
        row,
        state=JobState.RUNNING,
        agent_id=event.data.agent_id,
        started_at=started_at,
        lease_until=context.now + context.timings.lease,
        due_at=None,
        wake_at=timeout_check_at(row, started_at, context.timings),
        updated_at=context.now,
    )
    if isinstance(event, events.AttemptProgressed):
        running = evolve(running, progress=event.data.fraction, progress_note=event.data.note or None)
    notifications = frozenset({Notification.CANCEL}) if row.cancel_reason is not None else NO_NOTIFICATIONS
    return JobTransition(running, "running", notifications=notifications)


def _taken_over(row: JobRow, event: SignOfLife, now: datetime) -> bool:
    """True if another agent begins the attempt again: the first has died, or was cut off for as long as its
    claim held.

    The start is by the agent's clock, unless that is ahead of ours.
    """
    if (
        not isinstance(event, events.AttemptStarted)
        or row.state is not JobState.RUNNING
        or row.started_at is None
    ):
        return False
    return row.agent_id is not None and row.started_at < event.data.started_at <= now


def has_ended(row: JobRow, event: events.Event[Any]) -> bool:
    """True if this event may have quarantined the dead job of `row`; later events repeat no notification."""
    started_at = event.data.started_at if isinstance(event, events.AttemptStarted) else None
    return row.started_at is not None and started_at is not None and row.started_at < started_at


def timeout_check_at(row: JobRow, started_at: datetime, timings: Timings) -> datetime:
    """Return when the watchdog must look at a running attempt. Its lease belongs to its agent."""
    return started_at + row.timeout + timings.timeout_grace


def on_overdue(
    row: JobRow, _: events.AttemptStartTimedOut, context: JudgeContext
) -> JobTransition | NoChange:
    """Queue a retry whose time has passed; its attempt number stays.

    Its dispatch left the delay queue at its time, and waits in its queue or is lost: `redispatch` compares
    the two, so that a backlog makes no second message. Only a dispatch that waited in the store is
    published here. A retry that a breaker holds back is postponed; a half-open one admits its probes. One
    that needs a slot gets it elsewhere (`limits`).
    """
    if takes_turns(row):
        return NoChange("it waits for a slot")
    if breaker := context.holding.holds(row, context.now):
        put_off = evolve(row, wake_at=context.now + RECHECK_INTERVAL, updated_at=context.now)
        return JobTransition(put_off, f"held back: {breaker.name} is {breaker.state.value}")
    dispatched_at, notifications = context.now, frozenset({Notification.DISPATCH})
    if row.dispatched_at is not None:
        dispatched_at, notifications = max(row.dispatched_at, row.due_at or context.now), NO_NOTIFICATIONS
    queued = evolve(
        row,
        state=JobState.QUEUED,
        due_at=None,
        dispatched_at=dispatched_at,
        wake_at=context.now + row.policy.start_timeout,
        updated_at=context.now,
    )
    return JobTransition(queued, "queued", notifications=notifications)


def queue_refused_retry(row: JobRow, attempt: int, now: datetime) -> JobRow | None:
    """Queue a retry that is due and whose dispatch the broker refused; None for any other attempt.

    Its dispatch waits in the store as that of any queued job whose queue is full. As a retry it would wait
    for the watchdog, and look like one that a breaker holds back.
    """
    if row.state is not JobState.RETRYING or row.attempt != attempt:
        return None
    if row.dispatched_at is None or row.due_at is None or row.due_at > now:
        return None
    return evolve(
        row,
        version=row.version + 1,
        state=JobState.QUEUED,
        due_at=None,
        dispatched_at=None,
        wake_at=now + row.policy.start_timeout,
        updated_at=now,
    )


def _started_at(row: JobRow, event: SignOfLife, now: datetime) -> datetime:
    if not isinstance(event, events.AttemptStarted):
        return row.started_at or now
    # By our clock it started between its dispatch and now, whatever the agent's clock says.
    return max(min(event.data.started_at, now), row.dispatched_at or row.accepted_at)


def _another_holds(row: JobRow, event: SignOfLife, started_at: datetime) -> bool:
    """True if another agent holds the attempt: the ledger grants it again, and the later start holds it."""
    if row.state is not JobState.RUNNING or row.agent_id in (None, event.data.agent_id):
        return False
    later = row.started_at is None or started_at > row.started_at
    return not isinstance(event, events.AttemptStarted) or not later
