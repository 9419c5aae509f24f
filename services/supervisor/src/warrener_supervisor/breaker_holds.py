"""Retries that do not go by the ladder: too long a wait, or a circuit breaker holds them back. Pure."""

from dataclasses import replace
from datetime import datetime

from warrener_contracts.events import ErrorInfo
from warrener_contracts.states import JobState
from warrener_store.breaker_gate import RECHECK_INTERVAL
from warrener_store.rows import BreakerRow, JobRow
from warrener_supervisor.breakers.attribution import COUNTED_ERRORS
from warrener_supervisor.context import JudgeContext
from warrener_supervisor.timings import Timings
from warrener_supervisor.verdicts import JobTransition


def recheck_at(row: JobRow, due_at: datetime, context: JudgeContext) -> datetime:
    """When the watchdog must look at a retry that is due at `due_at`.

    What goes by the ladder: a little later, should the ladder have lost it. What waits in the store: then.
    What is due and held back: when its breaker wakes it, and after PUT_OFF at the latest.
    """
    if context.holding.find_blocking(row.job_type, row.policy) is not None:
        return due_at if due_at > context.now else context.now + RECHECK_INTERVAL
    return (
        due_at
        if due_at - context.now > context.timings.max_queue_delay
        else due_at + context.timings.ladder_grace
    )


def is_stored_only(row: JobRow, now: datetime, timings: Timings) -> bool:
    """Whether the watchdog dispatches it, and not the ladder."""
    if row.due_at is None or row.wake_at is None:
        return False
    if row.due_at - now > timings.max_queue_delay:
        return True
    return (
        row.state is JobState.RETRYING and not row.due_at < row.wake_at <= row.due_at + timings.ladder_grace
    )


def breaker_to_blame(row: JobRow, error: ErrorInfo | None, context: JudgeContext) -> BreakerRow | None:
    """The open breaker that is to blame for `error`, so that the job is not. A probe's failure is charged."""
    if error is None or error.kind not in COUNTED_ERRORS or row.cancel_reason is not None:
        return None
    return context.holding.find_open(row.job_type, row.policy)


def annotate(breaker: BreakerRow, decision: JobTransition) -> JobTransition:
    """`decision`, with the breaker named where the attempt is shown."""
    if decision.attempt is None or decision.row.state is not JobState.RETRYING:
        return decision
    verdict = f"not charged, held back: {breaker.name} is open"
    return decision._replace(verdict="held back", attempt=replace(decision.attempt, verdict=verdict))
