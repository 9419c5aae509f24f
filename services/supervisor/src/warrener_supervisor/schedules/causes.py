"""Why a schedule does not tick, or why no job of it succeeds, as far as store and broker know. Pure."""

from collections.abc import Collection
from datetime import datetime, timedelta

from warrener_contracts.states import JobState
from warrener_runtime.bus.port import QueueStats
from warrener_store.breaker_gate import OpenBreakers
from warrener_store.rows import AgentRow, JobRow
from warrener_store.schedules.rows import TickRow

_MANY_REQUESTS = 1000
_REJECTED_AFTER = timedelta(minutes=1)
"""A job that is not there so long after the broker had its request was rejected."""
_MESSAGE = 300  # characters of an error


def explain_missing_tick(requests: QueueStats | None) -> str:
    """Why schedulers do not decide a tick; `requests`: their queue, None while the broker does not answer."""
    if requests is None:
        return "the broker does not answer"
    if not requests.consumers:
        return "no scheduler consumes requests"
    if requests.waiting > _MANY_REQUESTS:
        return f"{requests.waiting} requests wait for {requests.consumers} schedulers"
    return f"schedulers are there ({requests.consumers}): their logs say why it is not decided"


def served_queues(agents: Collection[AgentRow], now: datetime, silent_after: timedelta) -> set[str]:
    """The queues of the agents that live."""
    return {queue for agent in agents if now - agent.last_seen_at < silent_after for queue in agent.queues}


def explain_missing_success(
    tick: TickRow | None, job: JobRow | None, served: Collection[str], holding: OpenBreakers, now: datetime
) -> str | None:
    """Why the newest tick that has asked for a job has not succeeded; None where nothing is known."""
    if tick is None:
        return "none of its newest ticks has asked for a job"
    if tick.fired_at is None:
        return "the broker has not confirmed the request of its last tick"
    if job is None:
        late = now - tick.fired_at > _REJECTED_AFTER
        return "the request of its last tick was rejected: see `warrener parked`" if late else None
    return _of_job(job, served, holding)


def _of_job(job: JobRow, served: Collection[str], holding: OpenBreakers) -> str | None:
    if job.state.terminal:
        return None if job.state is JobState.SUCCEEDED else f"its last job is {job.state}{_why(job)}"
    if job.state is JobState.RUNNING:
        return "its last job is running"
    if breaker := holding.find_blocking(job.job_type, job.policy):
        return f"its last job is held back: {breaker.name} is {breaker.state}"
    if job.queue not in served:
        return f"no agent serves queue {job.queue}, where its last job waits"
    if job.state is JobState.RETRYING:
        return f"its last job is tried again{_why(job)}"
    return (
        f"its last job waits in queue {job.queue}" if job.state is JobState.QUEUED else "its last job waits"
    )


def _why(job: JobRow) -> str:
    return f": {job.error.message[:_MESSAGE]}" if job.error else ""
