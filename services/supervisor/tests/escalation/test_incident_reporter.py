"""A job whose type an agent does not know waits for another agent, uncharged, ever longer, and is named."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from services.supervisor.tests.stage import JOB, NOW, SupervisorHarness, failed, make, opened

from warrener_contracts import topology
from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.policy import JobPolicy
from warrener_contracts.retryability import UNKNOWN_JOB_TYPE
from warrener_contracts.state_machine import JobState
from warrener_store.incidents.rows import MIXED_QUEUE
from warrener_store.jobs.rows import AttemptOutcome

UNKNOWN = ErrorInfo(kind=ErrorKind.ERROR, type=UNKNOWN_JOB_TYPE, message="agent-1 does not know it")
POLICY = JobPolicy(max_attempts=1, no_retry_on=(UNKNOWN_JOB_TYPE,), max_age=timedelta(hours=1))


@pytest.fixture
async def harness() -> AsyncIterator[SupervisorHarness]:
    async with opened(make(JobState.QUEUED, policy=POLICY, wake_at=NOW + timedelta(seconds=30))) as one:
        yield one


async def give_back(harness: SupervisorHarness) -> float:
    """An agent does not know it; how long the next one is waited for, in seconds."""
    row = await harness.row()
    await harness.publish(failed(row.attempt, UNKNOWN))
    row = await harness.row()
    due = (
        row.wake_at if row.dispatched_at is None else row.due_at
    )  # the store holds it back, or a delay queue
    assert due is not None
    return (due - harness.clock.now()).total_seconds()


async def test_it_is_given_back_uncharged_ever_later(harness: SupervisorHarness) -> None:
    waits = [await give_back(harness) for _ in range(7)]
    assert waits == [1, 5, 15, 60, 300, 300, 300]
    row = await harness.row()
    assert (row.state, row.failures, row.losses, row.attempt) == (JobState.RETRYING, 0, 0, 8)
    attempts = await harness.store.attempts_of([JOB])
    assert {one.outcome for one in attempts} == {AttemptOutcome.RELEASED}
    assert all("agent-1 does not know flights.load: retry at" in one.verdict for one in attempts)
    assert not harness.published(topology.EVENTS), "nothing went wrong: the world is told of no retry"


async def test_from_the_third_time_on_an_incident_is_raised(harness: SupervisorHarness) -> None:
    for _ in range(2):
        await give_back(harness)
    assert not await harness.store.escalations.incidents()
    for _ in range(3):
        await give_back(harness)
    (incident,) = await harness.store.escalations.incidents()
    assert (incident.kind, incident.subject, incident.job_type) == (MIXED_QUEUE, "default", "flights.load")
    assert incident.times == 1, "one a minute counts"
    assert "agent-1 does not know it" in str(incident.sample["text"])


async def test_its_greatest_age_ends_it(harness: SupervisorHarness) -> None:
    await harness.clock.advance(3600 - 0.5)
    row = await harness.row()
    await harness.publish(failed(row.attempt, UNKNOWN))
    row = await harness.row()
    assert row.state is JobState.DEAD
    assert row.error == UNKNOWN
