"""Requests of job types that allow one job of each key at once."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from services.scheduler.tests.stage import Stage, announcement, declaration, job_id, put
from services.scheduler.tests.stage import request as stage_request
from tests.store_access import load_job
from tests.store_rows import changed

from warrener_contracts.events import (
    JobCancelRequested,
    JobDeduplicated,
    JobFinished,
    JobRejected,
    JobRequested,
    Reason,
)
from warrener_contracts.messages import build_message
from warrener_contracts.policy import JobPolicy, Limit
from warrener_contracts.state_machine import JobState
from warrener_contracts.unique import OnRepeat, Unique, debounce
from warrener_store.jobs.views import CancelledTree

HOUR = timedelta(hours=1)


async def declare(stage: Stage, *key: str, gates: tuple[Limit, ...] = (), **options: Any) -> None:
    policy = JobPolicy(unique=Unique(*(key or ("{{ arguments.path }}",)), **options), gates=gates)
    await stage.send(build_message(announcement(declaration(policy=policy))))


def request(number: int, path: str = "a", **data: Any) -> JobRequested:
    return stage_request(number, arguments={"path": path}, **data)


async def states(stage: Stage, *numbers: int) -> list[JobState]:
    rows = await stage.store.jobs_by_id([job_id(number) for number in numbers])
    return [rows[job_id(number)].state for number in numbers if job_id(number) in rows]


async def test_a_repeat_is_rejected_by_a_reason_that_names_the_job_and_is_not_parked(stage: Stage) -> None:
    await declare(stage)
    await stage.send_requests(request(1), request(2, reply_to="me"), request(3, "b"))
    rejected = stage.answer("me", JobRejected).data
    assert (rejected.reason, rejected.job_id) == (Reason.CONFLICTING_REPEAT, job_id(2))
    assert f"got {job_id(1)}, which is queued" in rejected.detail
    assert stage.parked() == []
    assert stage.job_ids() == [job_id(1), job_id(3)]
    await stage.end_job(job_id(1))
    await stage.send_requests(request(4))
    assert stage.job_ids() == [job_id(1), job_id(3), job_id(4)]


async def test_the_first_job_stands_for_a_repeat_with_its_result(stage: Stage) -> None:
    await declare(stage, repeat="first", window="1h")
    await stage.send_requests(request(1), request(2, reply_to="me"))
    assert stage.answer("me", JobDeduplicated).data.job_id == job_id(1)
    assert (await load_job(stage.store, job_id(1))).watchers == ("me",)
    await stage.end_job(job_id(1))
    await stage.send_requests(request(3, reply_to="late"))
    found, ended = stage.answers("late")
    assert isinstance(found, JobDeduplicated)
    assert isinstance(ended, JobFinished)
    assert (ended.data.job_id, ended.data.state) == (job_id(1), JobState.SUCCEEDED)
    assert stage.job_ids() == [job_id(1)]


async def test_a_waiting_job_is_replaced_and_its_cancel_requested_until_it_has_ended(stage: Stage) -> None:
    await declare(stage, repeat="replace")
    await stage.send_requests(request(1, delay=HOUR))
    await stage.send_requests(request(2, delay=HOUR), request(3, delay=HOUR))
    await stage.clock.advance(5)
    cancels = {one.data.job_id: one.data.reason for one in stage.all_of(JobCancelRequested)}
    assert cancels == {job_id(1): f"replaced by job {job_id(2)}", job_id(2): f"replaced by job {job_id(3)}"}
    await stage.clock.advance(15)
    assert len(stage.all_of(JobCancelRequested)) > 2, "no supervisor has ended them"
    await stage.clock.advance(3600)
    assert stage.job_ids() == [job_id(3)]


async def test_what_was_dispatched_is_not_replaced(stage: Stage) -> None:
    await declare(stage, repeat="replace", until="finished")
    await stage.send_requests(request(1))
    await stage.send_requests(request(2, reply_to="me"))
    assert "cannot be replaced any longer" in stage.answer("me", JobRejected).data.detail
    assert stage.job_ids() == [job_id(1)]


async def test_repeats_put_the_start_off_for_so_long_and_no_longer(stage: Stage) -> None:
    await declare(stage, repeat=debounce("5s", longest="12s"))
    began = stage.clock.now()
    for number in range(1, 7):
        await stage.send_requests(request(number), then=3.0)
    [first] = stage.dispatched()
    assert (first.data.job_id, first.time is not None) == (job_id(4), True)
    assert first.time is not None
    assert timedelta(seconds=12) <= first.time - began <= timedelta(seconds=14)
    await stage.clock.advance(6)
    assert stage.job_ids() == [job_id(4), job_id(6)], "the next one begins with a request of its own"


async def test_a_job_that_waits_for_a_slot_is_replaced_and_gets_none(stage: Stage) -> None:
    await declare(stage, repeat="replace", gates=(Limit(1),))
    await stage.send_requests(request(1, "other"))
    await stage.send_requests(request(2))
    await stage.send_requests(request(3))
    assert await states(stage, 1, 2, 3) == [JobState.QUEUED, JobState.WAITING, JobState.WAITING]
    assert (await load_job(stage.store, job_id(2))).is_replaced
    assert stage.job_ids() == [job_id(1)]
    assert [slot.job_id for slot in await stage.store.slots_of("job/flights.load", 9)] == [job_id(1)]


async def test_the_call_of_a_workflow_ends_as_the_job_that_stands_for_it(stage: Stage) -> None:
    await declare(stage, repeat="first")
    await stage.send_requests(request(1))
    parent = UUID(int=77)
    for _ in range(2):  # the second is a repeat after a crash
        await stage.send_requests(request(2, parent_id=parent))
    follower = await load_job(stage.store, job_id(2))
    assert (follower.state, follower.leader, follower.parent_id) == (JobState.WAITING, job_id(1), parent)
    first = await load_job(stage.store, job_id(1))
    over = changed(first, state=JobState.SUCCEEDED, result=[3], wake_at=None, finished_at=first.updated_at)
    await stage.store.save_jobs([over])
    await stage.clock.advance(11)
    ended = await load_job(stage.store, job_id(2))
    assert (ended.state, ended.result, ended.attempt) == (JobState.SUCCEEDED, [3], 0)
    assert stage.job_ids() == [job_id(1)]


async def test_a_call_for_which_a_parent_of_its_own_stands_has_an_end(stage: Stage) -> None:
    await declare(stage, repeat="first")
    await stage.send_requests(request(1))
    await stage.send_requests(request(2, "between", parent_id=job_id(1)))
    await stage.send_requests(request(3, parent_id=job_id(2)))
    await stage.clock.advance(1)
    ended = await load_job(stage.store, job_id(3))
    assert (ended.state, ended.error is not None and ended.error.type) == (JobState.DEAD, "Rejected")
    assert await states(stage, 1, 2) == [JobState.QUEUED, JobState.QUEUED]


async def test_a_call_of_a_cancelled_tree_for_which_another_stands_is_cancelled(stage: Stage) -> None:
    await declare(stage, repeat="first")
    await stage.send_requests(request(1), request(2, "parent"))
    parent = await load_job(stage.store, job_id(2))
    tree = CancelledTree(job_id=job_id(2), reason="enough", cancelled_at=parent.accepted_at)
    await stage.store.mark_cancelled([tree])
    await stage.send_requests(request(3, parent_id=job_id(2)))
    assert job_id(3) in [one.data.job_id for one in stage.all_of(JobCancelRequested)]


async def test_a_new_announcement_of_a_limit_counts_for_jobs_that_always_wait(stage: Stage) -> None:
    await declare(stage, repeat=debounce("5s", longest="1m"), gates=(Limit(5),))
    await stage.send_requests(request(1))
    await stage.clock.advance(6)
    await declare(stage, repeat=debounce("5s", longest="1m"), gates=(Limit(2),))
    await stage.send_requests(request(2, "b"))
    assert (await stage.store.gate_rooms(["job/flights.load"]))["job/flights.load"].slots == 2


async def test_a_rejected_call_of_a_workflow_has_an_end(stage: Stage) -> None:
    await declare(stage)
    await stage.send_requests(request(1))
    for _ in range(2):
        await stage.send_requests(request(2, parent_id=UUID(int=77)))
    ended = await load_job(stage.store, job_id(2))
    assert ended.state is JobState.DEAD
    assert ended.error is not None
    assert str(job_id(1)) in ended.error.message


@pytest.mark.parametrize("repeat", list(OnRepeat)[:2])
async def test_a_tick_that_repeats_is_skipped_and_pauses_no_schedule(stage: Stage, repeat: OnRepeat) -> None:
    await declare(stage, repeat=repeat)
    await stage.send_requests(request(1, "a.csv"))
    await stage.send(build_message(put("often")), then=60.0)
    ticks = await stage.tick_rows("often")
    assert len(ticks) > 20
    assert all(tick.reason.startswith("skipped: ") for tick in ticks)
    assert all(str(job_id(1)) in tick.reason for tick in ticks)
    assert not (await stage.store.schedules(["often"]))["often"].paused


async def test_what_nobody_can_compare_is_refused(stage: Stage) -> None:
    await declare(stage, "{{ arguments.rows }}")
    await stage.send_requests(request(1, reply_to="me"))
    assert stage.answer("me", JobRejected).data.reason is Reason.BAD_ARGUMENTS
