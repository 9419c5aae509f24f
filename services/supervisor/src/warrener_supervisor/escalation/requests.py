"""Requests that a ladder makes for dead jobs: the job once more, or its compensation. Pure.

Their ids are derived from the dead job's, so that whoever asks again asks for the same job.
"""

from datetime import datetime
from uuid import UUID, uuid5

from warrener_contracts.events import JobRequested, JobRequestedData, JsonObject
from warrener_contracts.messages import Message, build_message
from warrener_contracts.policy import PolicyOverrides
from warrener_contracts.topology import MAX_BODY
from warrener_store.escalations import CaseRow
from warrener_store.rows import JobRow
from warrener_supervisor.escalation.facts import facts_of_job
from warrener_supervisor.escalation.model import CompensateStep
from warrener_supervisor.escalation.templating import filled
from warrener_supervisor.source import SOURCE

RETRY_SOURCE = f"{SOURCE}/escalation/retry"
"""The source of requests for what a ladder retries: such a job is not retried by a ladder again."""
COMPENSATION_SOURCE = f"{SOURCE}/escalation/compensate"


class EscalationRequestTooLarge(ValueError):
    """A request that no scheduler would take."""


def retry_job_id(job_id: UUID) -> UUID:
    """The job that a ladder asks for in place of this dead one."""
    return uuid5(job_id, "escalation retry")


def compensation_job_id(job_id: UUID, job_type: str) -> UUID:
    """The job of this type that makes up for this dead one."""
    return uuid5(job_id, f"escalation compensation\n{job_type}")


def original_job_id(row: JobRow) -> UUID:
    """The job that a ladder has retried as this one; itself, if none has."""
    return row.parent_id if row.source == RETRY_SOURCE and row.parent_id else row.job_id


def retry_request(row: JobRow, now: datetime) -> Message:
    """The dead job once more, as it was asked for but for its deadline, which may have passed."""
    policy = {name: getattr(row.policy, name) for name in PolicyOverrides.model_fields}
    data = JobRequestedData(
        job_type=row.job_type,
        arguments=row.arguments,
        queue=row.queue,
        parent_id=row.job_id,
        policy=PolicyOverrides(**policy),
    )
    return _message(retry_job_id(row.job_id), RETRY_SOURCE, row, data, now)


def compensation_request(row: JobRow, case: CaseRow, step: CompensateStep, now: datetime) -> Message:
    """A job of another type with the dead job's data. Raises NothingThere where its template names what the
    job does not have, TooLarge where no scheduler would take it."""
    facts = facts_of_job(row, case)
    data = JobRequestedData(
        job_type=step.job_type,
        arguments=_given(facts) if step.arguments is None else filled(step.arguments, facts),
        queue=step.queue,
        parent_id=row.job_id,
    )
    return _message(
        compensation_job_id(original_job_id(row), step.job_type), COMPENSATION_SOURCE, row, data, now
    )


def _given(facts: JsonObject) -> JsonObject:
    return {name: facts[name] for name in ("job_id", "job_type", "arguments", "error")}


def _message(job_id: UUID, source: str, row: JobRow, data: JobRequestedData, now: datetime) -> Message:
    event = JobRequested(
        id=str(job_id),
        source=source,
        time=now,
        subject=str(job_id),
        traceparent=row.traceparent,
        tracestate=row.tracestate,
        data=data,
    )
    message = build_message(event)
    if len(message.body) > MAX_BODY:
        raise EscalationRequestTooLarge(
            f"expected a request of at most {MAX_BODY} bytes, got {len(message.body)}"
        )
    return message
