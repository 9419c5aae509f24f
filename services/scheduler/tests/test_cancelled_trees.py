"""A cancelled tree does not grow: its follow-ups are cancelled as they come."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from services.scheduler.tests.stage import Stage, job_id, request

from warrener_contracts import topology
from warrener_contracts.events import JobCancelRequested, JobCancelRequestedData
from warrener_contracts.messages import build_message
from warrener_contracts.states import JobState
from warrener_store.jobs.views import CancelledTree

WHY = "with the tree of 1: wrong file"


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A scheduler with job 1, whose tree is cancelled."""
    one = Stage()
    await one.open()
    await one.send_requests(request(1))
    await one.store.mark_cancelled(
        [CancelledTree(job_id=job_id(1), reason=WHY, cancelled_at=one.clock.now())]
    )
    yield one
    await one.close()


def _cancelled(stage: Stage) -> list[tuple[object, str, bool]]:
    return [
        (event.data.job_id, event.data.reason, event.data.tree)
        for event in stage.published(topology.STATUS)
        if isinstance(event, JobCancelRequested)
    ]


async def test_a_follow_up_of_a_cancelled_tree_is_stored_and_not_dispatched(stage: Stage) -> None:
    await stage.send_requests(request(2, parent_id=job_id(1)), request(3, parent_id=job_id(9)), request(4))
    assert {event.data.job_id for event in stage.dispatched()} == {job_id(1), job_id(3), job_id(4)}
    assert _cancelled(stage) == [(job_id(2), WHY, True)]
    assert (await stage.store.jobs_by_id([job_id(2)]))[job_id(2)].state is JobState.QUEUED, (
        "the supervisor ends it"
    )


async def test_so_is_one_that_is_to_wait(stage: Stage) -> None:
    await stage.send_requests(request(2, parent_id=job_id(1), delay=timedelta(hours=1)))
    assert _cancelled(stage) == [(job_id(2), WHY, True)]


async def test_a_crash_between_the_insert_and_the_look_is_repeated(stage: Stage) -> None:
    """The row is there, and the request comes again: it is a repeat, and not dispatched as such either."""
    await stage.send_requests(request(2, parent_id=job_id(1)))
    await stage.send_requests(request(2, parent_id=job_id(1)))
    assert job_id(2) not in {event.data.job_id for event in stage.dispatched()}
    assert _cancelled(stage) == [(job_id(2), WHY, True)] * 2


async def test_what_is_cancelled_in_the_batch_of_its_request_is_not_dispatched(stage: Stage) -> None:
    data = JobCancelRequestedData(job_id=job_id(2), reason="wrong file")
    cancel = JobCancelRequested(id="cancel", source="test", data=data)
    bodies = [message.body for message in (build_message(cancel), build_message(request(2)))]
    await stage.send_raw([json.loads(body) for body in bodies])
    assert job_id(2) not in {event.data.job_id for event in stage.dispatched()}
    assert _cancelled(stage) == [(job_id(2), "wrong file", False)]
    assert job_id(2) in await stage.store.jobs_by_id([job_id(2)])


async def test_a_batch_without_follow_ups_costs_no_other_query(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: object) -> None:
        raise AssertionError("expected no look at cancelled trees")

    monkeypatch.setattr(stage.store, "cancelled_among", never)
    await stage.send_requests(request(2), request(3))
    assert len(stage.dispatched()) == 3
