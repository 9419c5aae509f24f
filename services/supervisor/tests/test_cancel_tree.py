"""Cancelling a job with all that has followed from it, and a job of which nothing else is known yet."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from services.supervisor.tests import event_factory
from services.supervisor.tests.event_factory import JOB, NOW, make
from services.supervisor.tests.harness import SupervisorHarness, opened

from warrener_contracts import topology
from warrener_contracts.events import AttemptCancel, JobCancelRequested, JobCancelRequestedData, JobFinished
from warrener_contracts.messages import Message, cancel_behind_reports
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow

TREE = f"with the tree of {JOB}: wrong file"


@pytest.fixture
async def harness() -> AsyncIterator[SupervisorHarness]:
    async with opened() as one:
        yield one


def job(number: int, parent: UUID | None = JOB, state: JobState = JobState.QUEUED, **more: Any) -> JobRow:
    return make(state, job_id=UUID(int=number), parent_id=parent, **more)


def cancel(job_id: UUID = JOB, *, tree: bool = True, **more: Any) -> Message:
    data = JobCancelRequestedData(job_id=job_id, reason="wrong file", tree=tree, **more)
    return cancel_behind_reports(JobCancelRequested(id=f"cancel {job_id}", source="test", data=data))


async def state(harness: SupervisorHarness, number: int) -> tuple[JobState, str | None]:
    row = (await harness.store.jobs_by_id([UUID(int=number)]))[UUID(int=number)]
    return row.state, row.cancel_reason


async def test_a_tree_is_cancelled_whatever_each_of_it_does(harness: SupervisorHarness) -> None:
    root = make(JobState.SUCCEEDED, attempt=1)
    runs = job(2, state=JobState.RUNNING, lease_until=NOW.replace(hour=13), wake_at=NOW.replace(hour=13))
    below = job(4, parent=UUID(int=2), state=JobState.WAITING)
    done = job(5, state=JobState.SUCCEEDED, attempt=1)
    below_done = job(6, parent=UUID(int=5), state=JobState.RETRYING, attempt=2)
    stranger = job(7, parent=None)
    await harness.store.insert_jobs([root, runs, job(3), below, done, below_done, stranger])
    await harness.publish(cancel(), then=1)
    assert (await harness.store.jobs_by_id([JOB]))[JOB].state is JobState.SUCCEEDED, "what is over stays"
    assert await state(harness, 2) == (JobState.RUNNING, TREE), "its agent is told to stop it"
    for number in (3, 4, 6):
        assert await state(harness, number) == (JobState.CANCELLED, TREE)
    assert await state(harness, 5) == (JobState.SUCCEEDED, None)
    assert await state(harness, 7) == (JobState.QUEUED, None)
    members = [JOB, *(UUID(int=number) for number in range(2, 7))]
    assert (await harness.store.cancelled_among(members)).keys() == set(members), "none of them grows on"
    published = {
        event.data.job_id for event in harness.published(topology.CONTROL) if isinstance(event, AttemptCancel)
    }
    assert UUID(int=2) in published


async def test_the_same_again_publishes_the_same_and_changes_nothing(harness: SupervisorHarness) -> None:
    await harness.store.insert_jobs([make(), job(2)])
    await harness.publish(cancel(), then=1)
    before = await harness.store.jobs_by_id([JOB, UUID(int=2)])
    await harness.publish(cancel()._replace(message_id="again"), then=1)
    assert await harness.store.jobs_by_id([JOB, UUID(int=2)]) == before


async def test_parents_that_go_round_in_a_circle_are_walked_once(harness: SupervisorHarness) -> None:
    await harness.store.insert_jobs([make(parent_id=UUID(int=2)), job(2)])
    await harness.publish(cancel(), then=1)
    assert await state(harness, 2) == (JobState.CANCELLED, TREE)
    assert harness.broker.ready(topology.STATUS_QUEUE.name) == 0


async def test_the_reason_arrives_with_the_end(harness: SupervisorHarness) -> None:
    await harness.store.insert_jobs([make()])
    await harness.publish(cancel(tree=False, reply_to="me"), then=1)
    ends = [event for event in harness.published(topology.EVENTS) if isinstance(event, JobFinished)]
    assert {(end.data.state, end.data.reason) for end in ends} == {(JobState.CANCELLED, "wrong file")}
    assert "reply.me" in harness.addresses(topology.EVENTS)


async def test_an_agent_that_takes_over_what_is_to_be_cancelled_is_stopped_at_once(
    harness: SupervisorHarness,
) -> None:
    future = NOW.replace(hour=13)
    row = make(JobState.RUNNING, lease_until=future, wake_at=future, cancel_reason="wrong file")
    await harness.store.insert_jobs([row])
    await harness.publish(event_factory.started(agent="agent-2", at=NOW), then=1)
    (published,) = harness.published(topology.CONTROL)
    assert isinstance(published, AttemptCancel)
    assert published.data.attempt is None


async def test_what_was_lost_and_cancelled_is_marked_by_the_agents_that_live(
    harness: SupervisorHarness,
) -> None:
    """The lost one may come back: it finds the mark in the ledger that it shares with them."""
    await harness.store.insert_jobs([make(JobState.RUNNING, cancel_reason="wrong file")])
    await harness.publish(event_factory.lost(), then=1)
    assert (await harness.store.jobs_by_id([JOB]))[JOB].state is JobState.CANCELLED
    assert [event.data.job_id for event in harness.published(topology.CONTROL)] == [JOB]
