"""What a heartbeat's list of running attempts says about the jobs in the store. Pure."""

from dataclasses import dataclass
from datetime import datetime

from warrener_contracts.events import AttemptStarted, AttemptStartedData, RunningAttempt
from warrener_contracts.states import JobState
from warrener_store.rows import JobRow, Lease
from warrener_supervisor.beginnings import watched_until
from warrener_supervisor.rules import Rules
from warrener_supervisor.source import SOURCE

_UNWANTED = frozenset({JobState.CANCELLED, JobState.EXPIRED, JobState.DEAD})


@dataclass(frozen=True, slots=True)
class Listed:
    """What follows from one line: a lease to renew, a sign of life to judge, an agent to be told to stop."""

    lease: Lease | None = None
    begun: AttemptStarted | None = None
    unwanted: bool = False


def listed(row: JobRow, line: RunningAttempt, agent_id: str, now: datetime, rules: Rules) -> Listed:
    """Judge one line. A stop that the agent has not heard is repeated with every heartbeat until it has.

    An attempt that is not the current one is passed over: the ledger takes it from the agent by itself.
    """
    if row.state in _UNWANTED:
        return Listed(unwanted=True)
    if line.attempt != row.attempt or row.state.terminal:
        return Listed()
    if row.state is not JobState.RUNNING:
        return Listed(begun=_begun(row, agent_id, now))
    if row.owner != agent_id:
        return Listed()
    until = now + rules.lease
    wake_at = watched_until(row, row.started_at or now, until, rules)
    lease = Lease(
        job_id=row.job_id, attempt=row.attempt, agent_id=agent_id, until=until, wake_at=max(wake_at, now)
    )
    return Listed(lease=lease, unwanted=row.cancel_reason is not None)


def _begun(row: JobRow, agent_id: str, now: datetime) -> AttemptStarted:
    return AttemptStarted(
        id=f"{row.job_id}:{row.attempt}:listed",
        source=SOURCE,
        time=now,
        traceparent=row.traceparent,
        tracestate=row.tracestate,
        data=AttemptStartedData(
            job_id=row.job_id, attempt=row.attempt, job_type=row.job_type, agent_id=agent_id, started_at=now
        ),
    )
