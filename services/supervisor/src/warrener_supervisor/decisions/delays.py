"""When the next attempt may begin, and what wakes it: a delay queue, the watchdog or a breaker."""

from dataclasses import replace
from datetime import datetime, timedelta

from warrener_contracts.events import ErrorInfo
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import DELAY_LEVELS
from warrener_store.breakers.gate import RECHECK_INTERVAL, BreakerRow
from warrener_store.gates.rows import takes_turns
from warrener_store.jobs.rows import JobRow, evolve
from warrener_store.jobs.rules import CHOSEN
from warrener_supervisor.breakers.state_machine import COUNTED_ERRORS
from warrener_supervisor.decisions.context import JobTransition, JudgeContext, Timings

_UNKNOWN_TYPE_DELAYS = tuple(level.delay for level in DELAY_LEVELS if level.delay <= timedelta(minutes=5))
_MAX_REQUESTED_DELAY = timedelta(days=366)  # a handler may request a delay, but not one without end


def requested_delay(seconds: float) -> timedelta:
    """Return the delay that a handler requests, bounded."""
    return timedelta(seconds=min(seconds, _MAX_REQUESTED_DELAY.total_seconds()))


def exceeds_max_age(row: JobRow, due_at: datetime) -> str | None:
    """Explain why no attempt may begin at `due_at`; None if one may. A workflow that waits grows old."""
    age = row.policy.max_age
    if age is None or row.suspensions or due_at <= row.accepted_at + age:
        return None
    return f"its next attempt would begin past its greatest age, at {due_at.isoformat()}"


def unknown_type_delay(row: JobRow, context: JudgeContext) -> timedelta:
    """Return how long to wait for an agent that knows the job type: longer each time, at most five minutes.

    Soon after an announcement of the type the delays stay short: an agent that knows it lives, and another
    one was faster.
    """
    delay = _UNKNOWN_TYPE_DELAYS[min(count_uncharged(row), len(_UNKNOWN_TYPE_DELAYS) - 1)]
    announced_at = context.announced.get(row.job_type)
    if announced_at is None or context.now - announced_at > _UNKNOWN_TYPE_DELAYS[-1]:
        return delay
    return min(delay, context.timings.delay_grace)


def await_announcement(row: JobRow, delay: timedelta, context: JudgeContext) -> JobRow:
    """Have a retry of an unknown job type wait in the store, if it waits long: an announcement of its type
    then wakes it at once, which no delay queue can."""
    is_held = context.holding.find_blocking(row.job_type, row.policy, row.queue) is not None
    if is_held or delay <= context.timings.delay_grace:
        return row
    return evolve(row, due_at=context.now, wake_at=context.now + delay, dispatched_at=None)


def count_snoozes(row: JobRow, context: JudgeContext) -> int:
    """Return how many of the attempts before this one have snoozed, or an upper bound."""
    return context.snoozes.get(row.job_id, count_uncharged(row))


def count_uncharged(row: JobRow) -> int:
    """Count the earlier attempts that were charged to nobody: snoozed, released, held back, not started.

    Of a workflow, those at its current turn: a turn that has ended settles all before it."""
    return max(row.tries - 1 - row.failures - row.losses, 0)


def recheck_at(row: JobRow, due_at: datetime, context: JudgeContext) -> datetime:
    """Return when the watchdog must look at a retry that is due at `due_at`.

    A retry in a delay queue: a little later, in case the queue has lost it. One that waits in the store:
    at `due_at`. One that is due and held back: when its breaker wakes it, at the latest after
    RECHECK_INTERVAL.
    """
    if context.holding.find_blocking(row.job_type, row.policy, row.queue) is not None:
        return due_at if due_at > context.now else context.now + RECHECK_INTERVAL
    in_store = takes_turns(row) or due_at - context.now > context.timings.max_queue_delay
    return due_at if in_store else due_at + context.timings.delay_grace


def is_stored_only(row: JobRow, now: datetime, timings: Timings) -> bool:
    """True if the retry waits in the store alone, so that the watchdog dispatches it and no delay queue."""
    if row.due_at is None or row.wake_at is None:
        return False
    if row.due_at - now > timings.max_queue_delay:
        return True
    return row.state is JobState.RETRYING and not row.due_at < row.wake_at <= row.due_at + timings.delay_grace


def breaker_to_blame(row: JobRow, error: ErrorInfo | None, context: JudgeContext) -> BreakerRow | None:
    """Return the open breaker to blame for `error`, which is then not charged. A probe's failure is."""
    if error is None or error.kind not in COUNTED_ERRORS or row.cancel_reason is not None:
        return None
    return context.holding.find_open(row.job_type, row.policy)


def annotate(breaker: BreakerRow, decision: JobTransition) -> JobTransition:
    """Name the breaker in the verdict of the attempt, and the time of the next one if it comes later."""
    row = decision.row
    if decision.attempt is None or row.state is not JobState.RETRYING:
        return decision
    verdict = f"not charged, held back: {breaker.name} is {breaker.state.value}"
    if row.due_at is not None and row.due_at > row.updated_at:
        verdict += f"; retry at {row.due_at.isoformat()}"
    _, *chosen = decision.attempt.verdict.partition(CHOSEN)
    verdict += "".join(chosen)
    return decision._replace(verdict="held back", attempt=replace(decision.attempt, verdict=verdict))
