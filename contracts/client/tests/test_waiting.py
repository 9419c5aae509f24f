"""A handle says why its job waits, once the supervisor has published that."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

from warrener_client.bulk_encoder import BulkEncoder
from warrener_client.job import Job
from warrener_client.reply_router import ReplyRouter
from warrener_client.requests import JobSpec
from warrener_contracts.events import (
    JobDeduplicated,
    JobDeduplicatedData,
    JobFinished,
    JobFinishedData,
    JobWaiting,
    JobWaitingData,
)
from warrener_contracts.states import JobState
from warrener_runtime.telemetry import NO_CONTEXT

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


def requested(reply_router: ReplyRouter) -> Job:
    job_id = uuid4()
    message = BulkEncoder("shop", NOON, "address").encode(JobSpec("flights.load"), str(job_id), NO_CONTEXT)
    return Job("flights.load", reply_router.register(job_id, message, 0.0), reply_router)


def waiting(job_id: UUID) -> JobWaiting:
    data = JobWaitingData(
        job_id=job_id, job_type="flights.load", attempt=1, queue="full", reason="it is full", since=NOON
    )
    return JobWaiting(id="w", source="warrener/supervisor", data=data)


def test_2_a_job_shows_why_it_waits_until_it_is_finished() -> None:
    reply_router = ReplyRouter("address")
    job, other = requested(reply_router), requested(reply_router)
    assert job.waiting is None
    assert reply_router.resolve(waiting(job.job_id))
    assert job.waiting is not None
    assert (job.waiting.queue, job.waiting.reason, job.waiting.since) == ("full", "it is full", NOON)
    assert other.waiting is None
    data = JobFinishedData(
        job_id=job.job_id,
        job_type="flights.load",
        state=JobState.SUCCEEDED,
        attempt=1,
        requested_at=NOON,
        finished_at=NOON,
    )
    reply_router.resolve(JobFinished(id="f", source="warrener/supervisor", data=data))
    assert job.is_finished
    assert job.waiting is None


def test_2_so_does_a_job_that_stands_for_a_later_request() -> None:
    reply_router = ReplyRouter("address")
    job, first = requested(reply_router), uuid4()
    data = JobDeduplicatedData(requested_job_id=job.job_id, job_id=first, idempotency_key="k")
    reply_router.resolve(JobDeduplicated(id="d", source="warrener/scheduler", data=data))
    assert reply_router.resolve(waiting(first))
    assert job.waiting is not None
    assert not reply_router.resolve(waiting(uuid4())), "nobody holds a handle of that one"
