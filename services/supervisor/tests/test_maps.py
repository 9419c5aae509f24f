"""Batches of maps: one is answered when all of its jobs have ended; its parent is left alone until then."""

from datetime import timedelta
from typing import Any

import pytest
from services.supervisor.tests import stage

from warrener_contracts import events
from warrener_contracts.identity import child_job_id
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow

ERROR = events.ErrorInfo(
    kind=events.ErrorKind.ERROR, type="Declined", message="no " * 500, stack="pay.py:7", retryable=False
)


def batch(number: int = 0, size: int = 3, **fields: Any) -> events.Call:
    call_id = f"map/shop.load/0/map#1/{number}"
    return events.Call(
        call_id=call_id, kind=events.CallKind.MAP, name="shop.load", digest="0f", size=size, **fields
    )


def member(
    call: events.Call, number: int, state: JobState = JobState.RUNNING, *, stops: bool = False, **fields: Any
) -> JobRow:
    text = f"{call.size}{'!' if stops else ''}/{call.call_id}"
    fields = {"job_type": "shop.load"} | fields
    if state.terminal:
        fields = {"finished_at": stage.STARTED + timedelta(seconds=number), "wake_at": None} | fields
    return stage.child(f"{call.call_id}/{number}", state, member_of=text, **fields)


def done(call: events.Call, number: int, result: Any = None) -> events.AttemptSucceeded:
    return stage.succeeded(1, result, child_job_id(stage.JOB, f"{call.call_id}/{number}"))


def ends(harness: stage.SupervisorHarness) -> list[events.MembersEnd]:
    """The answers of batches with which the last turn began."""
    (*_, last) = harness.dispatched()
    assert last.data.journal is not None
    return [one.members for one in last.data.journal.turns[-1].answers if one.members is not None]


async def test_the_last_end_of_a_batch_wakes_its_parent_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    call, woken = batch(size=20), list[Any]()
    rows = [member(call, number) for number in range(20)]
    async with stage.opened(stage.running_row(), *rows) as harness:
        await harness.publish(stage.suspended(1, call))
        wake = harness.store.wake_suspended

        async def watched(parents: Any, now: Any) -> Any:
            woken.extend(parents)
            return await wake(parents, now)

        monkeypatch.setattr(harness.store, "wake_suspended", watched)
        for number in (19, *range(18)):
            await harness.publish(done(call, number, number))
        assert not woken
        assert not harness.dispatched()
        await harness.publish(done(call, 18, 18))
        assert woken == [stage.JOB]
        assert ends(harness) == [events.MembersEnd(succeeded=20, results=tuple(range(20)))]


async def test_failures_are_named_in_the_order_of_items_without_what_would_fill_the_journal() -> None:
    call = batch(size=4)
    rows = [
        member(call, 0, JobState.DEAD, error=ERROR),
        member(call, 1, JobState.CANCELLED, cancel_reason="not needed"),
        member(call, 2, JobState.EXPIRED),
        member(call, 3, JobState.SUCCEEDED, result="r"),
    ]
    async with stage.opened(stage.running_row(), *rows) as harness:
        await harness.publish(stage.suspended(1, call))
        (end,) = ends(harness)
        assert (end.succeeded, end.failed, end.results) == (1, 3, (None, None, None, "r"))
        assert [(one.number, one.state) for one in end.failures] == [
            (0, JobState.DEAD),
            (1, JobState.CANCELLED),
            (2, JobState.EXPIRED),
        ]
        first, second, _ = (one.error for one in end.failures)
        assert first is not None
        assert (len(first.message), first.stack) == (300, None)
        assert second is not None
        assert second.message == "not needed"


async def test_results_that_are_long_together_are_left_out() -> None:
    calls = [batch(0, 100), batch(1, 100), batch(2, 2)]
    rows = [member(calls[0], n, JobState.DEAD if n < 60 else JobState.SUCCEEDED) for n in range(100)]
    rows += [member(calls[1], n, JobState.DEAD if n < 60 else JobState.SUCCEEDED) for n in range(100)]
    rows += [member(calls[2], n, JobState.SUCCEEDED, result="x" * 20_000) for n in range(2)]
    async with stage.opened(stage.running_row(), *rows) as harness:
        await harness.publish(stage.suspended(1, *calls))
        first, second, third = sorted(ends(harness), key=lambda end: (-end.failed, -len(end.failures)))
        assert (len(first.failures), len(second.failures), second.failed) == (60, 60, 60)
        assert first.results is not None
        assert (third.succeeded, third.results) == (2, None)


async def test_a_map_that_stops_is_answered_in_all_of_its_batches() -> None:
    calls = [batch(0, 3, stop_after=2), batch(1, 3, stop_after=2)]
    rows = [member(call, number, stops=True) for call in calls for number in range(3)]
    async with stage.opened(stage.running_row(), *rows) as harness:
        await harness.publish(stage.suspended(1, *calls))
        for call in calls:
            assert not harness.dispatched()
            failed = stage.failed(1, ERROR)
            data = failed.data.model_copy(update={"job_id": child_job_id(stage.JOB, f"{call.call_id}/1")})
            await harness.publish(failed.model_copy(update={"data": data}))
        first, second = ends(harness)
        assert (first.succeeded, first.failed, second.succeeded, second.failed) == (0, 1, 0, 1)


async def test_the_cancel_of_a_batch_cancels_its_jobs_that_have_not_ended_also_those_to_come() -> None:
    call = batch(size=3)
    rows = [member(call, 0), member(call, 1, JobState.SUCCEEDED)]
    async with stage.opened(stage.running_row(), *rows) as harness:
        given_up = events.JobCancelRequested(
            id="cancel",
            source="warrener/job/1",
            data=events.JobCancelRequestedData(
                job_id=child_job_id(stage.JOB, call.call_id),
                reason="the workflow no longer awaits it",
                tree=True,
                members=events.MapBatch(parent_id=stage.JOB, call_id=call.call_id, size=3),
            ),
        )
        await harness.publish(given_up)
        jobs = [child_job_id(stage.JOB, f"{call.call_id}/{number}") for number in range(3)]
        stored = await harness.store.jobs_by_id([*jobs, child_job_id(stage.JOB, call.call_id)])
        assert stored.keys() == set(jobs)
        assert stored[jobs[0]].cancel_reason == "the workflow no longer awaits it"
        assert stored[jobs[1]].state is JobState.SUCCEEDED
        assert stored[jobs[2]].state is JobState.CANCELLED, "a request that comes later runs nothing"
