"""How a turn of a workflow ends, and how its end begins: one that has called anything undoes it first, unless
its policy holds it."""

from dataclasses import replace
from datetime import datetime

from warrener_contracts.events import AttemptSuspended
from warrener_contracts.policy import OnFailure
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow, evolve
from warrener_supervisor.decisions import outcomes
from warrener_supervisor.decisions.context import JobTransition, JudgeContext, NoChange, Notification
from warrener_supervisor.decisions.workflow_turns import dispatched_turn, first_look

WITHOUT_SUCCESS = frozenset({JobState.DEAD, JobState.CANCELLED, JobState.EXPIRED})
OF_A_BEGUN_END = frozenset({Notification.CANCEL})
"""The notifications when an end begins: a running turn is stopped. The others follow with the end itself."""


def on_suspended(row: JobRow, event: AttemptSuspended, context: JudgeContext) -> JobTransition:
    """Have the job wait for what its turn has called. A turn that has called anything was no failure: those
    before it are forgotten."""
    added = event.data.suspension
    suspended = evolve(
        row,
        state=JobState.SUSPENDED,
        suspensions=row.suspensions + 1,
        settled_attempt=row.attempt,
        agent_id=None,
        due_at=None,
        started_at=None,
        lease_until=None,
        progress=None,
        progress_note=None,
        wake_at=first_look(added, context.now),
        updated_at=context.now,
    )
    if added.calls or added.answers:
        suspended = evolve(suspended, failures=0, losses=0, error=None)
    if added.continued is not None and row.cancel_reason is None:  # else its calls are undone
        suspended = evolve(suspended, generation=row.attempt, suspensions=1, failures=0, losses=0, error=None)
    if suspended.cancel_reason is not None:
        return outcomes.end_cancelled(suspended, None, context.now)  # which `begin_end` makes its beginning
    return JobTransition(suspended, "suspended")


def begin_end(decision: JobTransition | NoChange, now: datetime) -> JobTransition | NoChange:
    """Turn the end without success of a workflow that has suspended into the beginning of its end.

    The turn maker ends it once its calls are undone (`workflow_end`).
    """
    if isinstance(decision, NoChange):
        return decision
    row, dead_letter = decision.row, decision.dead_letter
    if row.state is JobState.DEAD and row.policy.on_failure is OnFailure.HOLD:
        return _hold(decision, now)
    if not (row.suspensions or row.ending_reason) or row.state not in WITHOUT_SUCCESS:
        return decision
    reason = row.cancel_reason if dead_letter is None else dead_letter.reason
    if row.state is JobState.EXPIRED:
        reason = f"its deadline was {(row.deadline_at or now).isoformat()}"
    ending = evolve(
        row, state=JobState.SUSPENDED, ending=row.state, ending_reason=reason, wake_at=now, finished_at=None
    )
    return decision._replace(
        row=ending,
        verdict=f"ends: {row.state.value}",
        dead_letter=None,
        notifications=decision.notifications & OF_A_BEGUN_END,
    )


def _hold(decision: JobTransition, now: datetime) -> JobTransition:
    """Hold a workflow that would be dead: it stays as it is until an operator ends the hold."""
    row, attempt, dead_letter = decision.row, decision.attempt, decision.dead_letter
    reason = "it has failed" if dead_letter is None else dead_letter.reason
    held = evolve(row, state=JobState.SUSPENDED, ending_reason=reason, wake_at=now, finished_at=None)
    return decision._replace(
        row=held,
        verdict="held",
        attempt=attempt and replace(attempt, verdict=f"held: {reason}"),
        dead_letter=None,
        notifications=decision.notifications & OF_A_BEGUN_END,
    )


def resumed(row: JobRow, now: datetime) -> JobRow:
    """Return the row of a held workflow whose last turn is tried again, as if it had never failed."""
    return dispatched_turn(_without_failure(row), now)


def waiting_for_retries(row: JobRow, now: datetime) -> JobRow:
    """Return the row of a held workflow whose last turn is tried again once the child jobs have ended that
    are requested again. Their calls are in the store already, as those of a suspension."""
    return evolve(
        _without_failure(row),
        version=row.version + 1,
        suspensions=row.suspensions + 1,
        wake_at=now,
        updated_at=now,
    )


def _without_failure(row: JobRow) -> JobRow:
    return evolve(
        row,
        ending_reason=None,
        failures=0,
        losses=0,
        settled_attempt=row.attempt,
        agent_id=None,
        started_at=None,
        progress=None,
        progress_note=None,
        error=None,
    )


def given_up(row: JobRow, now: datetime) -> JobRow:
    """Return the row of a held workflow whose end begins."""
    return evolve(row, version=row.version + 1, ending=JobState.DEAD, wake_at=now, updated_at=now)


def ends_already(row: JobRow) -> str | None:
    """Explain why nothing that could change a job counts, once its end has begun."""
    return row.ending and f"its end has begun: it will be {row.ending.value}"
