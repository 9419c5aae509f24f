"""Retries that do not go by the ladder: too long a wait, or a circuit breaker holds them back. Pure."""

from dataclasses import replace
from datetime import datetime

from warrener_contracts.events import ErrorInfo
from warrener_contracts.states import JobState
from warrener_store.breaker_gate import RECHECK_INTERVAL
from warrener_store.rows import BreakerRow, JobRow
from warrener_supervisor.breakers.blame import BLAMED
from warrener_supervisor.moment import Moment
from warrener_supervisor.rules import Rules
from warrener_supervisor.verdicts import Judgement


def looked_at(row: JobRow, due_at: datetime, at: Moment) -> datetime:
    """When the watchdog must look at a retry that is due at `due_at`.

    What goes by the ladder: a little later, should the ladder have lost it. What waits in the store: then.
    What is due and held back: when its breaker wakes it, and after PUT_OFF at the latest.
    """
    if at.holding.find_blocking(row.job_type, row.policy) is not None:
        return due_at if due_at > at.now else at.now + RECHECK_INTERVAL
    return due_at if due_at - at.now > at.rules.longest_ladder else due_at + at.rules.ladder_grace


def kept_in_store(row: JobRow, now: datetime, rules: Rules) -> bool:
    """Whether the watchdog dispatches it, and not the ladder."""
    if row.due_at is None or row.wake_at is None:
        return False
    if row.due_at - now > rules.longest_ladder:
        return True
    return row.state is JobState.RETRYING and not row.due_at < row.wake_at <= row.due_at + rules.ladder_grace


def not_charged(row: JobRow, error: ErrorInfo | None, at: Moment) -> BreakerRow | None:
    """The open breaker that is to blame for `error`, so that the job is not. A probe's failure is charged."""
    if error is None or error.kind not in BLAMED or row.cancel_reason is not None:
        return None
    return at.holding.find_open(row.job_type, row.policy)


def said_of(breaker: BreakerRow, ruling: Judgement) -> Judgement:
    """`ruling`, with the breaker named where the attempt is shown."""
    if ruling.attempt is None or ruling.row.state is not JobState.RETRYING:
        return ruling
    verdict = f"not charged, held back: {breaker.name} is open"
    return ruling._replace(verdict="held back", attempt=replace(ruling.attempt, verdict=verdict))
