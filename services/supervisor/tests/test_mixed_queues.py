"""A job whose type an agent does not know waits for another agent, uncharged, ever longer, and is named."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from services.supervisor.tests.stage import Stage
from services.supervisor.tests.words import JOB, NOW, failed, make

from warrener_contracts import topology
from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.policy import JobPolicy
from warrener_contracts.retryability import UNKNOWN_JOB_TYPE
from warrener_contracts.states import JobState
from warrener_store.escalations import MIXED_QUEUE
from warrener_store.rows import AttemptEnd, JobRow

UNKNOWN = ErrorInfo(kind=ErrorKind.ERROR, type=UNKNOWN_JOB_TYPE, message="agent-1 does not know it")
POLICY = JobPolicy(max_attempts=1, no_retry=(UNKNOWN_JOB_TYPE,), max_age=timedelta(hours=1))


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    one = Stage()
    await one.open(make(JobState.QUEUED, policy=POLICY, wake_at=NOW + timedelta(seconds=30)))
    yield one
    await one.close()


async def row_of(stage: Stage) -> JobRow:
    return (await stage.store.jobs_by_id([JOB]))[JOB]


async def give_back(stage: Stage) -> float:
    """An agent does not know it; how long the next one is waited for, in seconds."""
    row = await row_of(stage)
    await stage.say(failed(row.attempt, UNKNOWN))
    due = (await row_of(stage)).due_at
    assert due is not None
    return (due - stage.clock.now()).total_seconds()


async def test_it_is_given_back_uncharged_ever_later(stage: Stage) -> None:
    waits = [await give_back(stage) for _ in range(7)]
    assert waits == [1, 5, 15, 60, 300, 300, 300]
    row = await row_of(stage)
    assert (row.state, row.failures, row.losses, row.attempt) == (JobState.RETRYING, 0, 0, 8)
    attempts = await stage.store.attempts_of(JOB)
    assert {one.end for one in attempts} == {AttemptEnd.RELEASED}
    assert all("agent-1 does not know flights.load: retry at" in one.verdict for one in attempts)
    assert not stage.told(topology.EVENTS), "nothing went wrong: the world is told of no retry"


async def test_from_the_third_time_on_somebody_is_told(stage: Stage) -> None:
    for _ in range(2):
        await give_back(stage)
    assert not await stage.store.escalations.cases()
    for _ in range(3):
        await give_back(stage)
    (case,) = await stage.store.escalations.cases()
    assert (case.kind, case.subject, case.job_type) == (MIXED_QUEUE, "default", "flights.load")
    assert case.times == 1, "one a minute counts"
    assert "agent-1 does not know it" in str(case.sample["text"])


async def test_its_greatest_age_ends_it(stage: Stage) -> None:
    await stage.clock.advance(3600 - 0.5)
    row = await row_of(stage)
    await stage.say(failed(row.attempt, UNKNOWN))
    row = await row_of(stage)
    assert row.state is JobState.DEAD
    assert row.error == UNKNOWN
