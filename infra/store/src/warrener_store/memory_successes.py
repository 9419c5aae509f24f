"""Jobs that a success ends, in memory."""

from dataclasses import replace
from datetime import datetime

from warrener_contracts.state_machine import JobState
from warrener_store.last_attempt import VERDICT
from warrener_store.port import Save
from warrener_store.rows import AttemptEnd, AttemptRow, JobRow
from warrener_store.successes import SucceededJob, Success


def success_save(success: Success, row: JobRow, now: datetime) -> Save:
    """The save by which a success ends the job of this row."""
    over = replace(
        row,
        version=row.version + 1,
        state=JobState.SUCCEEDED,
        owner=success.agent_id,
        due_at=None,
        wake_at=None,
        lease_until=None,
        finished_at=now,
        updated_at=now,
        result=success.result,
    )
    attempt = AttemptRow(
        job_id=row.job_id,
        attempt=row.attempt,
        end=AttemptEnd.SUCCEEDED,
        agent_id=success.agent_id,
        dispatched_at=row.dispatched_at,
        started_at=success.started_at,
        finished_at=success.finished_at,
        error=None,
        verdict=VERDICT,
    )
    return Save(over, attempt)


def succeeded_job(row: JobRow) -> SucceededJob:
    """What there is to tell of a job that has succeeded."""
    assert row.finished_at is not None
    return SucceededJob(
        row.job_id,
        row.attempt,
        row.result,
        row.finished_at,
        row.job_type,
        row.policy,
        row.parent_id,
        row.traceparent,
        row.tracestate,
        row.requested_at,
        row.watchers,
    )
