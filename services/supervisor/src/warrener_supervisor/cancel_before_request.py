"""A cancel that comes before its job: the job is there at once, and cancelled. Pure.

Two schedulers may take a request and its cancel at the same time, and a request may come again long after. So
the cancel does not wait for the job: it takes the place of its row, under its id, and the request that comes
finds the job over. The row's unique key does the locking, and a job that nobody cancels pays nothing for it.
"""

from datetime import datetime

from warrener_contracts.events import JobCancelRequested
from warrener_contracts.policy import Guarantee, JobPolicy
from warrener_contracts.states import JobState
from warrener_store.rows import JobRow

JOB_TYPE = "job.unheard"
"""Of a job of which only the cancel was heard. No agent can declare it: `job` is a reserved first word."""

_QUEUE = "default"


def tombstone_for(event: JobCancelRequested, now: datetime) -> JobRow:
    """The job that `event` cancels, of which nothing else is known."""
    data = event.data
    return JobRow(
        job_id=data.job_id,
        job_type=JOB_TYPE,
        queue=_QUEUE,
        arguments={},
        guarantee=Guarantee.IDEMPOTENT,
        policy=JobPolicy(),
        source=event.source,
        traceparent=event.traceparent,
        tracestate=event.tracestate,
        requested_at=event.time or now,
        accepted_at=now,
        state=JobState.CANCELLED,
        watchers=(data.reply_to,) if data.reply_to else (),
        cancel_reason=data.reason,
        finished_at=now,
        updated_at=now,
    )
