"""How a job gets to run: signs of life, and retries whose time has passed. Pure."""

from datetime import datetime
from typing import Any

from warrener_contracts.events import (
    AttemptCheckpointed,
    AttemptStartTimedOut,
    AttemptProgressed,
    AttemptStarted,
    Event,
)
from warrener_contracts.state_machine import Signal
from warrener_contracts.states import JobState
from warrener_store.job_row import evolve
from warrener_store.breaker_gate import RECHECK_INTERVAL
from warrener_store.rows import AttemptEnd, AttemptRow, JobRow
from warrener_supervisor import ends, poison
from warrener_supervisor.moment import Moment
from warrener_supervisor.rules import Rules
from warrener_supervisor.verdicts import NOTHING, Ignored, Judgement, Tell

SignOfLife = AttemptStarted | AttemptProgressed | AttemptCheckpointed


def alive(row: JobRow, event: SignOfLife, at: Moment) -> Judgement | Ignored:
    """Its agent says that it runs: it is not lost for a lease, and whatever else it says is noted.

    If somebody has asked to cancel the job, this agent has not heard of it: it has taken the attempt over.
    """
    started_at = _started_at(row, event, at.now)
    if _another_holds(row, event, started_at):
        return Ignored(f"the attempt is held by {row.owner}, not by {event.data.agent_id}")
    if _taken_over(row, event, at.now):
        row = poison.ended_with_its_agent(row)
        why = poison.quarantined(row)
        if why is not None and row.cancel_reason is None:  # what is cancelled is told to stop below
            return _quarantined(row, why, at.now)
    running = evolve(
        row,
        state=JobState.RUNNING,
        owner=event.data.agent_id,
        started_at=started_at,
        lease_until=at.now + at.rules.lease,
        due_at=None,
        wake_at=watched_from(row, started_at, at.rules),
        updated_at=at.now,
    )
    if isinstance(event, AttemptProgressed):
        running = evolve(running, progress=event.data.fraction, progress_note=event.data.note or None)
    unheard = frozenset({Tell.CANCEL}) if row.cancel_reason is not None else NOTHING
    return Judgement(running, "running", tells=unheard)


def _taken_over(row: JobRow, event: SignOfLife, now: datetime) -> bool:
    """Whether it was begun again under the same number: the agent that ran it before has died, or was cut off
    for as long as its claim held. By the agent's clock, unless that is ahead of ours."""
    if not isinstance(event, AttemptStarted) or row.state is not JobState.RUNNING or row.started_at is None:
        return False
    return row.owner is not None and row.started_at < event.data.started_at <= now


def _quarantined(row: JobRow, why: str, now: datetime) -> Judgement:
    """It is not let go on; whoever has just begun it is told to stop."""
    assert row.error is not None
    record = AttemptRow(
        job_id=row.job_id,
        attempt=row.attempt,
        end=AttemptEnd.LOST,
        agent_id=row.owner,
        dispatched_at=row.dispatched_at,
        started_at=row.started_at,
        finished_at=now,
        error=row.error,
        verdict="",
    )
    return ends.dead(row, record, why, now)._replace(tells=ends.tidings(JobState.DEAD, Signal.ALIVE))


def has_ended(row: JobRow, event: Event[Any]) -> bool:
    """Whether the dead job of `row` may be so by this event (`_quarantined`): others come late, and say
    nothing new."""
    return (
        isinstance(event, AttemptStarted)
        and row.started_at is not None
        and row.started_at < event.data.started_at
    )


def watched_from(row: JobRow, started_at: datetime, rules: Rules) -> datetime:
    """When the watchdog must look at a running attempt: its time has run out. Its lease is its agent's."""
    return started_at + row.policy.timeout + rules.timeout_grace


def queued_again(row: JobRow, _: AttemptStartTimedOut, at: Moment) -> Judgement:
    """Queue a retry whose time has passed; its attempt number stays.

    Its dispatch left the delay queue at its time, and waits in its queue or is lost: `redispatch` compares
    the two, so that a backlog makes no second message. Only a dispatch that was kept in the store is
    published here. A retry that a breaker holds back is put off; a half-open one admits its probes.
    """
    if breaker := at.holding.holds(row, at.now):
        put_off = evolve(row, wake_at=at.now + RECHECK_INTERVAL, updated_at=at.now)
        return Judgement(put_off, f"held back: {breaker.name} is {breaker.state.value}")
    kept = row.dispatched_at is None
    queued = evolve(
        row,
        state=JobState.QUEUED,
        due_at=None,
        dispatched_at=at.now if kept else max(row.dispatched_at or at.now, row.due_at or at.now),
        wake_at=at.now + row.policy.start_timeout,
        updated_at=at.now,
    )
    return Judgement(queued, "queued", tells=frozenset({Tell.DISPATCH}) if kept else NOTHING)


def _started_at(row: JobRow, event: SignOfLife, now: datetime) -> datetime:
    if not isinstance(event, AttemptStarted):
        return row.started_at or now
    # By our clock it started between its dispatch and now, whatever the clock of the agent says.
    return max(min(event.data.started_at, now), row.dispatched_at or row.accepted_at)


def _another_holds(row: JobRow, event: SignOfLife, started_at: datetime) -> bool:
    """The ledger grants an attempt again when its holder has fallen silent: the later start holds it."""
    if row.state is not JobState.RUNNING or row.owner in (None, event.data.agent_id):
        return False
    later = row.started_at is None or started_at > row.started_at
    return not isinstance(event, AttemptStarted) or not later
