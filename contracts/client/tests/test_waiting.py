"""A handle says why its job waits, once the supervisor has published that."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

from warrener_client.asking import Ask
from warrener_client.desk import Desk
from warrener_client.job import Job
from warrener_client.writing import Writer
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


def requested(desk: Desk) -> Job:
    job_id = uuid4()
    letter = Writer("shop", NOON, "address").letter(Ask("flights.load"), str(job_id), NO_CONTEXT)
    return Job("flights.load", desk.expect(job_id, letter, 0.0), desk)


def waiting(job_id: UUID) -> JobWaiting:
    data = JobWaitingData(
        job_id=job_id, job_type="flights.load", attempt=1, queue="full", reason="it is full", since=NOON
    )
    return JobWaiting(id="w", source="warrener/supervisor", data=data)


def test_2_a_job_says_why_it_waits_until_it_is_over() -> None:
    desk = Desk("address")
    job, other = requested(desk), requested(desk)
    assert job.waiting is None
    assert desk.take(waiting(job.job_id))
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
    desk.take(JobFinished(id="f", source="warrener/supervisor", data=data))
    assert job.over
    assert job.waiting is None


def test_2_so_does_a_job_that_stands_for_a_later_request() -> None:
    desk = Desk("address")
    job, first = requested(desk), uuid4()
    data = JobDeduplicatedData(requested_job_id=job.job_id, job_id=first, idempotency_key="k")
    desk.take(JobDeduplicated(id="d", source="warrener/scheduler", data=data))
    assert desk.take(waiting(first))
    assert job.waiting is not None
    assert not desk.take(waiting(uuid4())), "nobody holds a handle of that one"
