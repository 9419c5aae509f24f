"""Whether a request becomes a job, and which. Pure: everything it needs to know is handed in."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from warrener_contracts.events import JobRequested, JobRequestedData, Reason
from warrener_contracts.identity import job_id_of
from warrener_contracts.states import JobState
from warrener_scheduler.request_digest import request_digest
from warrener_store.agents.rows import JobTypeRow
from warrener_store.jobs.rows import JobRow


class Accepted(NamedTuple):
    """The job to insert: queued with attempt 1, or waiting for its time."""

    row: JobRow


@dataclass(frozen=True, slots=True)
class Rejected:
    """No job, and why not."""

    reason: Reason
    detail: str


AdmissionDecision = Accepted | Rejected


def job_id_for(event: JobRequested) -> UUID:
    """The job that a request asks for."""
    return job_id_of(event.source, event.id)


def decide(
    event: JobRequested, job_type: JobTypeRow | None, problem: str | None, now: datetime
) -> AdmissionDecision:
    """Accept or reject `event`, given its job type as announced and what is wrong with its arguments.

    The row hangs under the trace context of the event as it is handed in.
    """
    data = event.data
    if job_type is None:
        detail = (
            f"expected a job type that an agent has announced, got {data.job_type!r}: start an agent for it"
        )
        return Rejected(Reason.UNKNOWN_JOB_TYPE, detail)
    if problem is not None:
        return Rejected(Reason.BAD_ARGUMENTS, problem)
    return Accepted(_row(event, job_type, now))


def _row(event: JobRequested, job_type: JobTypeRow, now: datetime) -> JobRow:
    data = event.data
    policy = data.policy.apply_to(job_type.policy) if data.policy else job_type.policy
    due_at, deadline_at = _due_at(data, now), _deadline_at(data, now)
    waits = due_at > now or _has_expired(deadline_at, now)
    return JobRow(
        job_id=job_id_for(event),
        job_type=data.job_type,
        queue=data.queue or job_type.queue,
        arguments=data.arguments,
        guarantee=job_type.guarantee,
        policy=policy.with_initial_wait(due_at - now) if waits else policy,
        source=event.source,
        idempotency_key=data.idempotency_key,
        parent_id=data.parent_id,
        traceparent=event.traceparent,
        tracestate=event.tracestate,
        requested_at=event.time or now,
        accepted_at=now,
        deadline_at=deadline_at,
        fingerprint=request_digest(data),
        state=JobState.WAITING if waits else JobState.QUEUED,
        attempt=0 if waits else 1,
        watchers=(data.reply_to,) if data.reply_to else (),
        due_at=due_at if waits else None,
        wake_at=due_at if waits else now + policy.start_timeout,
        dispatched_at=None if waits else now,
        updated_at=now,
    )


def _due_at(data: JobRequestedData, now: datetime) -> datetime:
    """The later of the two where both are given: neither may be broken."""
    if data.not_before is None and data.delay is None:
        return now
    return max(data.not_before or now, now + (data.delay or timedelta(0)))


def _deadline_at(data: JobRequestedData, now: datetime) -> datetime | None:
    """The earlier of the two where both are given."""
    if data.expires_after is None:
        return data.deadline
    expires_at = now + data.expires_after
    return expires_at if data.deadline is None else min(data.deadline, expires_at)


def _has_expired(deadline_at: datetime | None, now: datetime) -> bool:
    """The deadline has passed already: not worth an attempt; the supervisor, who ends jobs, ends it."""
    return deadline_at is not None and deadline_at <= now
