"""What happens next to a job, in a sentence. Pure."""

from datetime import datetime

from warrener.shown.times import ago, clock, span
from warrener_contracts.states import JobState
from warrener_store.rows import JobRow


def next_step(row: JobRow, now: datetime) -> str:
    """What to expect, and who will do it."""
    deadline = (
        f"; it expires {ago(row.deadline_at, now)}" if row.deadline_at and not row.state.terminal else ""
    )
    return _of_state(row, now) + deadline


def _of_state(row: JobRow, now: datetime) -> str:
    if row.state.terminal:
        return _over(row)
    if row.cancel_reason and row.state is JobState.RUNNING:
        return f"its agent is told to stop it ({row.cancel_reason}); it ends when the agent says so"
    left = row.policy.max_attempts - row.failures
    if row.state is JobState.WAITING:
        return (
            f"the scheduler dispatches it {ago(row.due_at, now)}" if row.due_at else "the scheduler plans it"
        )
    if row.state is JobState.QUEUED:
        return f"the next free agent of queue {row.queue} takes attempt {row.attempt}" + _redispatch(row, now)
    if row.state is JobState.RETRYING:
        return _retrying(row, now)
    return _running(row, now, left)


def _retrying(row: JobRow, now: datetime) -> str:
    when = f"{ago(row.due_at, now)} ({clock(row.due_at)})" if row.due_at else "soon"
    most = row.policy.max_attempts
    if row.attempt - 1 > row.failures:  # some were not charged: the number alone says little
        return f"attempt {row.attempt} {when}; {row.failures} of at most {most} have failed"
    return f"attempt {row.attempt} of at most {most} {when}"


def _over(row: JobRow) -> str:
    if row.state is JobState.DEAD:
        return "nothing: no further attempt is made; it is kept among the dead letters"
    return "nothing: it is over"


def _redispatch(row: JobRow, now: datetime) -> str:
    if row.dispatched_at is None:
        return ""
    return f"; nobody took it by {clock(row.dispatched_at + row.policy.start_timeout)}: dispatched again"


def _running(row: JobRow, now: datetime, left: int) -> str:
    limit = f"it may run until {clock(row.started_at + row.policy.timeout)}" if row.started_at else "it runs"
    lease = f", its agent was heard of, lease for {span(row.lease_until - now)}" if row.lease_until else ""
    if row.lease_until and row.lease_until < now:
        lease = ", its agent is overdue: the supervisor gives the job to another"
    more = "then tried again" if left > 1 else "then it is dead"
    return f"{limit}{lease}; if it fails: {more}"
