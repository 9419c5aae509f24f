"""A workflow that its policy holds: it does not die, but waits until an operator resumes it or has its calls
undone."""

from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

import pytest
from services.supervisor.tests import stage
from services.supervisor.tests.test_workflow_ends import HOPELESS, SOON, Shop, ends, waiting

from warrener_contracts import events
from warrener_contracts.policy import JobPolicy, OnFailure
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow

HOLD = JobPolicy(max_attempts=2, on_failure=OnFailure.HOLD)
PAY, NOTIFY = stage.call("pay", undo=True), stage.call("notify")
PAID = stage.child("pay", JobState.SUCCEEDED, result=7)


def running(attempt: int = 2, **changes: Any) -> JobRow:
    """The turn behind the call of PAY, which may fail once more."""
    of: dict[str, Any] = {"policy": HOLD, "attempt": attempt, "failures": 1, **changes}
    return waiting(state=JobState.RUNNING, lease_until=stage.FRESH, wake_at=stage.FRESH, **of)


def continued(
    action: Literal["resume", "undo"], number: int = 1, job_id: UUID = stage.JOB
) -> events.JobContinueRequested:
    fields = {"job_id": job_id, "action": action, "reply_to": "me"}
    return stage.event(events.JobContinueRequested, f"continue-{number}", **fields)


def replies(harness: stage.SupervisorHarness) -> list[tuple[bool, str]]:
    return [(one.data.accepted, one.data.detail) for one in harness.all_of(events.CommandHandled)]


async def hold(harness: stage.SupervisorHarness, *calls: events.Call) -> Shop:
    """Let the workflow, which has called these, fail for the last time."""
    shop = Shop(harness)
    await shop.call(*calls)
    await harness.publish(stage.failed(2), then=60)
    return shop


async def test_a_workflow_that_would_be_dead_is_held_and_raised_and_nothing_is_undone() -> None:
    async with stage.opened(running(), PAID, stage.child("notify")) as harness:
        await hold(harness, PAY, NOTIFY)
        row = await harness.row()
        assert (row.state, row.ending, row.is_held) == (JobState.SUSPENDED, None, True)
        assert row.ending_reason == "its 2 attempts are used up"
        assert row.error == stage.BOOM
        (attempt,) = await harness.store.attempts_of([stage.JOB])
        assert attempt.verdict == "held: its 2 attempts are used up"
        signal = {"job_id": stage.JOB, "name": "packed"}
        await harness.publish(stage.event(events.JobSignalRequested, "signal-1", **signal), then=1000)
        assert [*harness.requested(), *ends(harness)] == []
        assert stage.JOB not in {one.data.job_id for one in harness.dispatched()}
        assert (await harness.row()).is_held, "a signal is stored, and begins no turn"
        (incident,) = await harness.store.escalations.incidents()
        assert (incident.kind, incident.subject) == ("job.dead", str(stage.JOB))


async def test_a_resumed_workflow_tries_its_turn_again_with_all_its_attempts() -> None:
    async with stage.opened(running(), PAID) as harness:
        await hold(harness, PAY)
        await harness.publish(continued("resume"), continued("resume", 2))
        assert replies(harness) == [(True, ""), (True, "it is not held, it is queued")]
        row = await harness.row()
        assert (row.state, row.attempt, row.failures, row.error) == (JobState.QUEUED, 3, 0, None)
        (dispatch,) = harness.dispatched()
        assert dispatch.data.attempt == 3
        assert dispatch.data.journal is not None
        assert [one.attempt for one in dispatch.data.journal.turns] == [1]
        await harness.publish(stage.started(3), stage.failed(3), then=10)
        assert (await harness.row()).attempt == 4, "a failure is retried again"
        await harness.publish(stage.started(4), stage.failed(4), then=10)
        assert (await harness.row()).is_held
        await harness.publish(continued("resume", 3), stage.started(5), stage.succeeded(5, "done"))
        assert (await harness.row()).result == "done"
        assert [end.state for end in ends(harness)] == [JobState.SUCCEEDED]
        await harness.publish(continued("resume", 4))
        assert replies(harness)[-1] == (False, "expected a workflow that is held, got one that is succeeded")


async def test_a_held_workflow_that_is_given_up_undoes_its_calls_and_is_dead() -> None:
    async with stage.opened(running(), PAID) as harness:
        shop = await hold(harness, PAY)
        await harness.publish(continued("undo"), continued("resume", 2))
        assert replies(harness) == [(True, ""), (True, "it is not held, it is ending as dead")]
        await shop.undo()
        row = await harness.row()
        assert (row.state, shop.undone) == (JobState.DEAD, ["undo.pay"])
        assert row.ending_reason == "its 2 attempts are used up; undone: shop.pay"
        assert [end.state for end in ends(harness)] == [JobState.DEAD]
        (incident,) = await harness.store.escalations.incidents()
        assert incident.times == 1, "its death is the failure that was raised"


@pytest.mark.parametrize("ending", [JobState.CANCELLED, JobState.EXPIRED])
@pytest.mark.parametrize("suspensions", [0, 1])
async def test_a_cancel_and_a_deadline_end_a_held_workflow(ending: JobState, suspensions: int) -> None:
    deadline = SOON + timedelta(minutes=2) if ending is JobState.EXPIRED else None
    async with stage.opened(running(suspensions=suspensions, deadline_at=deadline), PAID) as harness:
        shop = await hold(harness, PAY)
        assert (await harness.row()).is_held
        if deadline is None:
            await harness.publish(stage.cancel("you"))
        else:
            await harness.clock.advance(70)
        assert (await harness.row()).ending is ending
        await shop.undo()
        assert ((await harness.row()).state, shop.undone) == (ending, ["undo.pay"])


async def test_a_workflow_whose_first_turn_fails_is_held_and_resumed_too() -> None:
    first = running(1, suspensions=0)
    async with stage.opened(first) as harness:
        await harness.publish(stage.failed(1, error=HOPELESS), then=60)
        assert (await harness.row()).is_held
        await harness.publish(continued("resume"))
        assert [one.data.attempt for one in harness.dispatched()] == [2]


async def test_a_late_success_of_a_lost_turn_ends_its_hold() -> None:
    lost = running(policy=HOLD.model_copy(update={"max_lost_attempts": 0}))
    async with stage.opened(lost, PAID) as harness:
        await Shop(harness).call(PAY)
        await harness.publish(stage.lost(2))
        assert (await harness.row()).is_held
        (stop,) = harness.all_of(events.AttemptCancel)
        assert stop.data.attempt == 2, "later ones may follow"
        await harness.publish(stage.succeeded(2, "late"))
        assert ((await harness.row()).state, (await harness.row()).result) == (JobState.SUCCEEDED, "late")


async def test_what_is_unknown_is_not_resumed_and_what_is_not_held_stays() -> None:
    async with stage.opened(waiting()) as harness:
        await harness.publish(continued("undo"), continued("undo", 2, UUID(int=7)))
        assert replies(harness) == [
            (True, "it is not held, it is suspended"),
            (False, "expected a workflow that is held, got none with this id"),
        ]
        assert (await harness.row()).ending is None
