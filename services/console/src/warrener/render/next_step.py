"""What happens next to a job, in a sentence. Pure."""

from datetime import datetime

from warrener.render.breakers import describe_hold
from warrener.render.tables import SILENT_AFTER
from warrener.render.times import ago, clock
from warrener_contracts.states import JobState
from warrener_store.breakers.gate import NO_OPEN_BREAKERS, OpenBreakers
from warrener_store.jobs.rows import JobRow


def next_step(
    row: JobRow,
    now: datetime,
    open_breakers: OpenBreakers = NO_OPEN_BREAKERS,
    *,
    seen: datetime | None = None,
    refusing_since: datetime | None = None,
) -> str:
    """What to expect, and who will do it; `open_breakers` is what breakers hold back, `seen` the last
    heartbeat of the job's agent, `refusing_since` when the job's queue began to take no messages."""
    deadline = (
        f"; it expires {ago(row.deadline_at, now)}" if row.deadline_at and not row.state.terminal else ""
    )
    breaker = open_breakers.find_blocking(row.job_type, row.policy)
    if breaker is not None and row.state in (JobState.WAITING, JobState.RETRYING):
        return describe_hold(breaker, now) + deadline
    return _of_state(row, now, seen, refusing_since) + deadline


def _of_state(row: JobRow, now: datetime, seen: datetime | None, refusing_since: datetime | None) -> str:
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
        return _queued(row, now, refusing_since)
    if row.state is JobState.RETRYING:
        return _retrying(row, now)
    return _running(row, now, left, seen)


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


def _queued(row: JobRow, now: datetime, refusing_since: datetime | None) -> str:
    if refusing_since is not None:
        return (
            f"queue {row.queue} takes no messages since {clock(refusing_since)}, {ago(refusing_since, now)}:"
            f" it is full or without a quorum; attempt {row.attempt} is published once the queue takes it"
        )
    taken = f"the next free agent of queue {row.queue} takes attempt {row.attempt}"
    if row.dispatched_at is None:
        return f"{taken}; its queue has not taken it yet: a supervisor publishes it again"
    late = row.dispatched_at + row.policy.start_timeout
    return f"{taken}; it waits longer than its start_timeout since {clock(late)}" if late <= now else taken


def _running(row: JobRow, now: datetime, left: int, seen: datetime | None) -> str:
    limit = f"it may run until {clock(row.started_at + row.policy.timeout)}" if row.started_at else "it runs"
    agent = f", its agent was seen {ago(seen, now)}" if seen else ""
    if seen and now - seen > SILENT_AFTER:
        agent += ": the supervisor gives the job to another"
    more = "then tried again" if left > 1 else "then it is dead"
    return f"{limit}{agent}; if it fails: {more}"
