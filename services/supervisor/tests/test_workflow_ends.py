"""A workflow without success ends its children, undoes its calls, newest first, and only then ends."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from services.supervisor.tests import stage

from warrener_contracts import events, topology
from warrener_contracts.identity import child_job_id, undo_job_id, undo_source
from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.rows import DeadLetterFilter
from warrener_store.errors import StoreUnavailable
from warrener_store.jobs.rows import JobRow
from warrener_store.workflows.rows import TurnRow

PAY, SHIP, NOTIFY = stage.call("pay", undo=True), stage.call("ship", undo=True), stage.call("notify")
HOPELESS = stage.BOOM.model_copy(update={"retryable": False})
SOON = stage.NOW + timedelta(seconds=2)


def waiting(*calls: events.Call, state: JobState = JobState.SUSPENDED, **changes: Any) -> JobRow:
    """A workflow that has suspended once, and that somebody watches."""
    more: dict[str, Any] = {"watchers": ("me",), "suspensions": 1, **changes}
    if state is JobState.SUSPENDED:
        more.setdefault("wake_at", stage.NOW + timedelta(hours=1))
    return stage.make(state, **more)


class Shop:
    """A workflow that has called, and the scheduler and the agents of what undoes its calls."""

    def __init__(self, harness: stage.SupervisorHarness) -> None:
        self.harness = harness
        self.undone: list[str] = []

    async def call(self, *calls: events.Call) -> None:
        turn = TurnRow(job_id=stage.JOB, attempt=1, suspension=events.Suspension(calls=calls))
        await self.harness.store.keep_suspensions([turn])

    async def undo(self, state: JobState = JobState.SUCCEEDED) -> None:
        """Let each job that is requested come to this end, one after the other, until none is left."""
        for _ in range(5):
            await self.harness.clock.advance(3)
            fresh = [one for one in self.harness.requested() if one.data.job_type not in self.undone]
            if not fresh:
                return
            (one,) = fresh
            self.undone.append(one.data.job_type)
            await self.harness.store.insert_jobs([undo_job(one)])
            job_id = UUID(one.id)
            if state is JobState.SUCCEEDED:
                await self.harness.publish(stage.succeeded(job_id=job_id))
            else:
                await self.harness.publish(_failed(job_id))


def undo_job(request: events.JobRequested) -> JobRow:
    of: dict[str, Any] = {"job_id": UUID(request.id), "job_type": request.data.job_type}
    of |= {"parent_id": request.data.parent_id, "source": request.source}
    return stage.make(JobState.RUNNING, lease_until=stage.FRESH, wake_at=stage.FRESH, **of)


def _failed(job_id: UUID) -> events.AttemptFailed:
    failed = stage.failed(error=HOPELESS)
    return failed.model_copy(
        update={"id": str(job_id), "data": failed.data.model_copy(update={"job_id": job_id})}
    )


def ends(harness: stage.SupervisorHarness) -> list[events.JobFinishedData]:
    """The ends of the workflow that were published, each once."""
    found = {event.id: event.data for event in harness.all_of(events.JobFinished)}
    return [data for data in found.values() if data.job_id == stage.JOB]


async def test_a_cancelled_workflow_undoes_what_it_has_called_the_newest_first() -> None:
    children = [stage.child("pay", JobState.SUCCEEDED), stage.child("ship", JobState.DEAD)]
    async with stage.opened(waiting(), *children, stage.child("notify")) as harness:
        shop = Shop(harness)
        await shop.call(PAY, SHIP, NOTIFY)
        await harness.publish(stage.cancel("you"), then=1)
        row = await harness.row()
        assert (row.state, row.ending) == (JobState.SUSPENDED, JobState.CANCELLED)
        assert not harness.requested(), "a child runs: nothing is undone before its end"
        assert (await harness.row(child_job_id(stage.JOB, "notify"))).cancel_reason is not None
        stopped = stage.stopped()
        data = stopped.data.model_copy(update={"job_id": child_job_id(stage.JOB, "notify")})
        await harness.publish(stopped.model_copy(update={"data": data}))
        await shop.undo()
        assert shop.undone == ["undo.ship", "undo.pay"]
        first = harness.requested()[0]
        assert (first.id, first.source) == (str(undo_job_id(stage.JOB, "ship")), undo_source(stage.JOB))
        assert (first.data.arguments, first.data.parent_id) == ({"of": "ship"}, stage.JOB)
        row = await harness.row()
        assert (row.state, row.ending) == (JobState.CANCELLED, None)
        assert row.cancel_reason == "requested; undone: shop.ship, shop.pay"
        assert [end.state for end in ends(harness)] == [JobState.CANCELLED]
        addresses = harness.addresses(topology.EVENTS)
        assert {"reply.me", "reply.you"} <= set(addresses)


async def test_a_child_that_never_began_is_not_undone_and_a_request_that_comes_late_is_cancelled() -> None:
    rejected = stage.child("pay", JobState.DEAD, attempt=0)
    async with stage.opened(waiting(), rejected) as harness:
        shop = Shop(harness)
        await shop.call(PAY, SHIP)
        await harness.publish(stage.cancel(), then=5)
        assert (await harness.row(child_job_id(stage.JOB, "ship"))).state is JobState.CANCELLED
        assert (await harness.row()).state is JobState.CANCELLED
        assert not harness.requested()


async def test_a_detached_child_goes_on() -> None:
    detached = PAY.model_copy(update={"detached": True})
    async with stage.opened(waiting(), stage.child("pay")) as harness:
        await Shop(harness).call(detached)
        await harness.publish(stage.cancel(), then=3)
        assert (await harness.row(child_job_id(stage.JOB, "pay"))).cancel_reason is None
        assert (await harness.row()).state is JobState.CANCELLED


async def test_a_dead_workflow_is_dead_once_its_calls_are_undone() -> None:
    running = waiting(state=JobState.RUNNING, lease_until=stage.FRESH, wake_at=stage.FRESH)
    async with stage.opened(running, stage.child("pay", JobState.SUCCEEDED)) as harness:
        shop = Shop(harness)
        await shop.call(PAY)
        await harness.publish(stage.failed(error=HOPELESS))
        assert (await harness.row()).ending is JobState.DEAD
        assert not ends(harness)
        (attempt,) = await harness.store.attempts_of([stage.JOB])
        assert attempt.verdict == "dead: no retry can mend it"
        await shop.undo()
        row = await harness.row()
        assert row.state is JobState.DEAD
        assert row.error is not None
        assert row.error.message == "boom; undone: shop.pay"
        (dead_letter,) = await harness.store.dead_letter_store.list_dead_letters(DeadLetterFilter(states=()))
        assert dead_letter.reason == "no retry can mend it; undone: shop.pay"
        assert len({event.id for event in harness.all_of(events.JobDead)}) == 1
        kinds = [incident.kind for incident in await harness.store.escalations.incidents()]
        assert kinds == ["job.dead"]


async def test_an_undo_that_fails_is_named_raised_and_stops_no_other() -> None:
    children = [stage.child("pay", JobState.SUCCEEDED), stage.child("ship", JobState.SUCCEEDED)]
    async with stage.opened(waiting(), *children) as harness:
        shop = Shop(harness)
        await shop.call(PAY, SHIP)
        await harness.publish(stage.cancel())
        await shop.undo(JobState.DEAD)
        assert shop.undone == ["undo.ship", "undo.pay"]
        row = await harness.row()
        assert row.cancel_reason == "requested; could not be undone: shop.ship, shop.pay"
        raised = [
            incident
            for incident in await harness.store.escalations.incidents()
            if incident.kind == "workflow.undo_failed"
        ]
        assert len(raised) == 2
        assert "is not undone" in str(raised[0].sample["text"])


async def test_a_deadline_stops_the_turn_and_undoes_and_ends_no_end() -> None:
    running = waiting(state=JobState.RUNNING, lease_until=stage.FRESH, wake_at=stage.FRESH, deadline_at=SOON)
    async with stage.opened(running, stage.child("pay", JobState.SUCCEEDED)) as harness:
        shop = Shop(harness)
        await shop.call(PAY)
        await harness.clock.advance(5)
        assert (await harness.row()).ending is JobState.EXPIRED
        assert [stop.data.attempt for stop in harness.all_of(events.AttemptCancel)][:1] == [None]
        await harness.clock.advance(30)
        assert len(harness.all_of(events.JobDeadlinePassed)) == 1, "it is not reported again"
        await harness.publish(stage.cancel("you"), stage.succeeded(result=7))
        row = await harness.row()
        assert (row.ending, row.watchers) == (JobState.EXPIRED, ("me",)), "nothing changes it"
        await shop.undo()
        row = await harness.row()
        assert (row.state, row.result) == (JobState.EXPIRED, None)
        assert row.error is not None
        assert row.error.message.endswith("; undone: shop.pay")


async def test_what_a_stopped_turn_has_called_is_undone_too() -> None:
    """Its suspension comes when the end has begun, but before the end."""
    running = waiting(state=JobState.RUNNING, attempt=2, lease_until=stage.FRESH, wake_at=stage.FRESH)
    async with stage.opened(running, stage.child("pay", JobState.SUCCEEDED), stage.child("ship")) as harness:
        shop = Shop(harness)
        await shop.call(PAY)
        await harness.publish(stage.cancel(), stage.suspended(2, SHIP))
        row = await harness.row()
        assert (row.ending, row.suspensions) == (JobState.CANCELLED, 2), "a pending cancel ends it at once"
        await harness.publish(stage.succeeded(job_id=child_job_id(stage.JOB, "ship")))
        await shop.undo()
        assert shop.undone == ["undo.ship", "undo.pay"]


async def test_a_success_of_a_workflow_that_waits_counts() -> None:
    async with stage.opened(waiting()) as harness:
        await Shop(harness).call(PAY)
        await harness.publish(stage.succeeded(result=7), then=30)
        assert (await harness.row()).result == 7
        assert not harness.requested()


@pytest.mark.parametrize("state", [JobState.SUSPENDED, JobState.RUNNING])
async def test_what_a_later_turn_has_called_is_cancelled_after_the_success_of_an_earlier_one(
    state: JobState,
) -> None:
    later: dict[str, Any] = {"attempt": 2, "suspensions": 2, "losses": 1}
    if state is JobState.RUNNING:
        later |= {"lease_until": stage.FRESH, "wake_at": stage.FRESH}
    detached = SHIP.model_copy(update={"detached": True})
    children = stage.child("pay"), stage.child("ship"), stage.child("stray")
    async with stage.opened(waiting(state=state, **later), *children) as harness:
        await Shop(harness).call(detached)
        await harness.store.keep_suspensions(
            [TurnRow(job_id=stage.JOB, attempt=2, suspension=events.Suspension(calls=(PAY,)))]
        )
        await harness.publish(stage.succeeded(1, result=7), then=3)
        assert (await harness.row()).state is JobState.SUCCEEDED
        cancelled = [
            (await harness.row(child_job_id(stage.JOB, each))).cancel_reason
            for each in ("pay", "ship", "stray")
        ]
        assert [reason is not None for reason in cancelled] == [True, False, True]
        await harness.publish(stage.succeeded(job_id=child_job_id(stage.JOB, "pay")), then=3)
        assert not harness.requested(), "a success undoes nothing"


async def test_an_end_is_over_however_much_later_a_child_is_reported() -> None:
    over = waiting(state=JobState.DEAD, finished_at=stage.NOW)
    async with stage.opened(over, stage.child("pay", JobState.SUCCEEDED), stage.child("ship")) as harness:
        await Shop(harness).call(PAY, SHIP.model_copy(update={"detached": True}))
        await harness.publish(stage.succeeded(job_id=child_job_id(stage.JOB, "ship")), then=3)
        assert not harness.requested(), "what undid it may have been deleted by its age"


async def test_an_end_whose_suspension_never_comes_goes_on() -> None:
    lost = waiting(updated_at=stage.NOW, wake_at=stage.NOW)
    async with stage.opened(lost, stage.child("pay")) as harness:
        await harness.publish(stage.cancel(), then=25)
        assert (await harness.row(child_job_id(stage.JOB, "pay"))).cancel_reason is None
        await harness.clock.advance(20)
        assert (await harness.row(child_job_id(stage.JOB, "pay"))).cancel_reason is not None
        data = stage.stopped().data.model_copy(update={"job_id": child_job_id(stage.JOB, "pay")})
        await harness.publish(stage.stopped().model_copy(update={"data": data}), then=3)
        assert (await harness.row()).state is JobState.CANCELLED


async def test_a_later_cancel_does_not_change_the_time_of_an_end() -> None:
    async with stage.opened(waiting(), stage.child("pay")) as harness:
        await Shop(harness).call(PAY)
        await harness.publish(stage.cancel(), then=5)
        began = (await harness.row()).updated_at
        await harness.publish(stage.cancel("you"), then=1)
        row = await harness.row()
        assert (row.watchers, row.updated_at) == (("me",), began)


async def test_children_are_looked_for_only_until_the_first_undo(monkeypatch: pytest.MonkeyPatch) -> None:
    children = [stage.child("pay", JobState.SUCCEEDED), stage.child("ship", JobState.SUCCEEDED)]
    async with stage.opened(waiting(), *children) as harness:
        shop, marks = Shop(harness), list[Any]()
        original = harness.store.mark_cancelled

        async def counted(trees: Any) -> Any:
            marks.extend(trees)
            return await original(trees)

        monkeypatch.setattr(harness.store, "mark_cancelled", counted)
        await shop.call(PAY, SHIP)
        await harness.publish(stage.cancel())
        assert len(marks) == 1
        await shop.undo()
        assert (await harness.row()).state is JobState.CANCELLED
        assert len(marks) == 1


async def test_an_undo_that_does_not_come_is_raised_with_its_id() -> None:
    late = stage.NOW - timedelta(minutes=20)
    ends = waiting(ending=JobState.CANCELLED, ending_reason="by you", updated_at=late, wake_at=stage.NOW)
    old = stage.child("pay", JobState.SUCCEEDED, finished_at=late)
    async with stage.opened() as harness:
        await harness.store.insert_jobs([ends, old])
        await Shop(harness).call(PAY)
        await harness.clock.advance(12)
        (incident,) = await harness.store.escalations.incidents()
        assert (incident.kind, incident.times) == ("workflow.undo_missing", 1)
        assert str(undo_job_id(stage.JOB, "pay")) in str(incident.sample["text"])


async def test_a_workflow_is_woken_though_the_supervisor_dies_when_its_child_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parent = UUID(int=7)
    later = SOON + timedelta(hours=1)
    outer = stage.make(JobState.SUSPENDED, job_id=parent, suspensions=1, wake_at=later)
    inner = stage.call("inner", job_id=stage.JOB)
    async with stage.opened(outer, waiting(parent_id=parent)) as harness:
        await Shop(harness).call()
        await harness.store.keep_suspensions(
            [TurnRow(job_id=parent, attempt=1, suspension=events.Suspension(calls=(inner,)))]
        )
        original = harness.store.save_jobs

        async def dies(saves: Any) -> Any:
            found = await original(saves)
            if any(save.row.state is JobState.CANCELLED for save in saves):
                monkeypatch.undo()
                raise StoreUnavailable("ordered by the test")
            return found

        monkeypatch.setattr(harness.store, "save_jobs", dies)
        await harness.publish(stage.cancel(), then=5)
        assert (await harness.row(parent)).state is JobState.QUEUED


async def test_the_end_of_a_workflow_wakes_the_workflow_that_has_called_it() -> None:
    parent = UUID(int=7)
    outer = stage.make(JobState.SUSPENDED, job_id=parent, suspensions=1, wake_at=SOON + timedelta(hours=1))
    async with stage.opened(outer, waiting(parent_id=parent)) as harness:
        await Shop(harness).call()
        inner = stage.call("inner", job_id=stage.JOB)
        await harness.store.keep_suspensions(
            [TurnRow(job_id=parent, attempt=1, suspension=events.Suspension(calls=(inner,)))]
        )
        await harness.publish(stage.cancel())
        assert (await harness.row()).state is JobState.CANCELLED
        assert (await harness.row(parent)).state is JobState.QUEUED
        (dispatch,) = harness.dispatched()
        assert dispatch.data.journal is not None
        (answer,) = dispatch.data.journal.turns[-1].answers
        assert (answer.state, answer.error and answer.error.message) == (JobState.CANCELLED, "requested")


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("step", ["save_jobs", "mark_cancelled", "child_status"])
@pytest.mark.parametrize("crashed", [1, 2, 3, 4])
async def test_a_crash_at_any_step_of_an_end_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, step: str, where: str, crashed: int
) -> None:
    children = [stage.child("pay", JobState.SUCCEEDED), stage.child("ship", JobState.SUCCEEDED)]
    async with stage.opened(waiting(), *children) as harness:
        shop = Shop(harness)
        await shop.call(PAY, SHIP)
        stage.fail_store(monkeypatch, harness.store, step, crashed, where)
        await harness.publish(stage.cancel(), then=12)
        await shop.undo()
        await harness.clock.advance(12)
        await shop.undo()
        assert shop.undone == ["undo.ship", "undo.pay"]
        assert (await harness.row()).state is JobState.CANCELLED
        (end,) = ends(harness)
        assert end.reason == "requested; undone: shop.ship, shop.pay"
