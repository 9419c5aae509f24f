"""A workflow that its policy holds: it does not die, but waits until an operator resumes it or has its calls
undone."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

import pytest
from services.supervisor.tests import stage
from services.supervisor.tests.test_workflow_ends import HOPELESS, SOON, Shop, ends, undo_job, waiting

from warrener_contracts import events
from warrener_contracts.identity import child_job_id, child_source, undo_job_id
from warrener_contracts.policy import JobPolicy, OnFailure
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow
from warrener_store.workflows.rows import TurnRow, WaitKind

HOLD = JobPolicy(max_attempts=2, on_failure=OnFailure.HOLD)
PAY, NOTIFY = stage.call("pay", undo=True), stage.call("notify")
PAID = stage.child("pay", JobState.SUCCEEDED, result=7)


def running(attempt: int = 2, **changes: Any) -> JobRow:
    """The turn behind the call of PAY, which may fail once more."""
    of: dict[str, Any] = {"policy": HOLD, "attempt": attempt, "failures": 1, **changes}
    return waiting(state=JobState.RUNNING, lease_until=stage.FRESH, wake_at=stage.FRESH, **of)


def continued(
    action: Literal["resume", "undo"], number: int = 1, job_id: UUID = stage.JOB, retry: tuple[str, ...] = ()
) -> events.JobContinueRequested:
    fields = {"job_id": job_id, "action": action, "reply_to": "me", "retry": retry}
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


FAILED_PAY = stage.child("pay", JobState.DEAD, error=stage.BOOM, queue="cards", arguments={"order": 7})
AGAIN = child_job_id(stage.JOB, f"pay~{FAILED_PAY.job_id}")


async def hold_by_pay(harness: stage.SupervisorHarness) -> Shop:
    """Let a call of the workflow fail, and the workflow with it."""
    shop = Shop(harness)
    await shop.call(PAY, NOTIFY, stage.signal_call("packed"), LOOK)
    failed = events.Answer(call_id="pay", at=stage.NOW, state=JobState.DEAD, error=stage.BOOM)
    turn = TurnRow(job_id=stage.JOB, attempt=2, answers=(failed,), began_at=stage.NOW)
    await harness.store.keep_answers([turn])
    await harness.publish(stage.failed(2, error=HOPELESS), then=60)
    assert (await harness.row()).is_held
    return shop


async def waits(harness: stage.SupervisorHarness) -> dict[WaitKind, int]:
    """How many workflows wait for what, as metrics have it."""
    return {kind: one.jobs for kind, one in (await harness.store.count_waits(10)).items() if one.jobs}


async def end_again(harness: stage.SupervisorHarness, event: events.Event[Any], number: int = 0) -> UUID:
    """Accept the request of a child job that was requested again, and let it end so."""
    request = harness.requested()[number]
    await harness.store.insert_jobs([undo_job(request)])
    data = event.data.model_copy(update={"job_id": UUID(request.id)})
    await harness.publish(event.model_copy(update={"id": f"end-{number}", "data": data}), then=2)
    return UUID(request.id)


LOOK = events.Call(call_id="look", kind=events.CallKind.STEP, name="look")


async def test_a_failed_call_is_requested_again_and_its_new_answer_takes_the_place_of_the_old_one() -> None:
    async with stage.opened(running(), FAILED_PAY, stage.child("notify")) as harness:
        await hold_by_pay(harness)
        assert await waits(harness) == {WaitKind.HELD: 1}
        await harness.publish(continued("resume", retry=("shop.pay",)), then=1)
        assert replies(harness) == [(True, "")]
        assert await waits(harness) == {WaitKind.CHILD: 1}
        (request,) = harness.requested()
        assert (request.id, request.source) == (str(AGAIN), child_source(stage.JOB))
        assert (request.data.job_type, request.data.queue) == ("shop.pay", "cards")
        assert (request.data.arguments, request.data.parent_id) == ({"order": 7}, stage.JOB)
        row = await harness.row()
        assert (row.state, row.is_held, row.attempt, row.error) == (JobState.SUSPENDED, False, 2, None)
        signal = {"job_id": stage.JOB, "name": "packed"}
        await harness.publish(stage.event(events.JobSignalRequested, "signal-1", **signal), then=100)
        assert not [one for one in harness.dispatched() if one.data.job_id == stage.JOB], (
            "no turn begins before the call has its new answer"
        )
        await end_again(harness, stage.succeeded(result=70))
        assert await waits(harness) == {}
        dispatch = harness.dispatched()[-1].data
        assert (dispatch.attempt, dispatch.journal is not None) == (3, True)
        assert dispatch.journal is not None
        first, failed, now = dispatch.journal.turns
        assert first.suspension is not None
        assert {call.call_id: call.job_id for call in first.suspension.calls}["pay"] == AGAIN
        assert failed.suspension is None
        (answer,) = failed.answers
        assert (answer.call_id, answer.at, answer.state, answer.result) == (
            "pay",
            stage.NOW,
            JobState.SUCCEEDED,
            70,
        )
        assert [one.signal_id is not None for one in now.answers] == [True]
        await harness.publish(stage.started(3), stage.succeeded(3, "done"))
        assert (await harness.row()).result == "done"


async def test_a_retried_call_may_fail_and_be_retried_again_and_each_of_its_jobs_is_undone_once() -> None:
    async with stage.opened(running(), FAILED_PAY, stage.child("notify", JobState.SUCCEEDED)) as harness:
        await hold_by_pay(harness)
        await harness.publish(continued("resume", retry=("pay",)), then=1)
        await end_again(harness, stage.failed(error=HOPELESS))
        await harness.publish(stage.started(3), stage.failed(3, error=HOPELESS), then=60)
        assert (await harness.row()).is_held
        await harness.publish(continued("resume", 2, retry=(str(AGAIN),)), then=1)
        third = await end_again(harness, stage.succeeded(result=70), 1)
        await harness.publish(stage.started(4), stage.failed(4, error=HOPELESS), then=60)
        await harness.publish(continued("undo", 3), then=3)
        assert await waits(harness) == {WaitKind.END: 1}
        undone = [str(await end_again(harness, stage.succeeded(), number)) for number in (2, 3, 4)]
        keys = (f"pay~{third}", f"pay~{AGAIN}", "pay")
        assert undone == [str(undo_job_id(stage.JOB, key)) for key in keys]
        row = await harness.row()
        assert (row.state, len(harness.requested())) == (JobState.DEAD, 5)
        assert await waits(harness) == {}


async def test_a_resume_carries_out_the_retry_that_a_supervisor_has_stored_and_not_begun() -> None:
    async with stage.opened(running(), FAILED_PAY, stage.child("notify")) as harness:
        await hold_by_pay(harness)
        again = PAY.model_copy(update={"job_id": AGAIN, "retry_of": FAILED_PAY.job_id})
        turn = TurnRow(job_id=stage.JOB, attempt=2, suspension=events.Suspension(calls=(again,)))
        await harness.store.keep_suspensions([turn])
        await harness.publish(continued("resume"), then=1)
        assert [one.id for one in harness.requested()] == [str(AGAIN)]
        assert not [one for one in harness.dispatched() if one.data.job_id == stage.JOB]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("notify", ""),
        ("look", "it is a step, and has no child job"),
        ("packed", "it is a signal, and has no child job"),
        ("charge", "no call of this id, child job or job type is there"),
    ],
)
async def test_a_call_that_has_not_failed_is_not_requested_again(name: str, why: str) -> None:
    async with stage.opened(running(), FAILED_PAY, stage.child("notify")) as harness:
        await hold_by_pay(harness)
        await harness.publish(continued("resume", retry=("pay", name)), then=10)
        ((accepted, detail),) = replies(harness)
        why = f"its job {NOTIFY.job_id} has not ended" if name == "notify" else why
        expected = f"expected a failed call, got {name}: {why}; those that can be are pay"
        assert (accepted, detail) == (False, expected)
        assert (await harness.row()).is_held
        assert not harness.requested()


async def test_the_jobs_of_a_map_are_not_requested_again_and_the_refusal_names_a_way() -> None:
    loads = stage.call("load", name="files.load", kind=events.CallKind.MAP, size=3, job_id=None)
    async with stage.opened(running()) as harness:
        await hold(harness, loads)
        await harness.publish(continued("resume", retry=("files.load",)))
        ((accepted, detail),) = replies(harness)
        assert not accepted
        assert detail == (
            "expected a failed call, got files.load: it is a map, and has no child job; deploy a body that "
            "maps its failed items again behind it, then resume; or undo it"
        )


async def test_a_child_that_succeeded_or_never_began_is_not_requested_again() -> None:
    children = [stage.child("pay", JobState.SUCCEEDED), stage.child("notify", JobState.DEAD, attempt=0)]
    async with stage.opened(running(), *children) as harness:
        await hold_by_pay(harness)
        await harness.publish(continued("resume", retry=("pay",)), continued("resume", 2, retry=("notify",)))
        (_, first), (_, second) = replies(harness)
        assert f"its job {PAY.job_id} has succeeded; resume it without, or undo it" in first
        assert f"its job {NOTIFY.job_id} never began, so the store may lack its arguments" in second


async def test_a_call_whose_wait_was_given_up_is_not_requested_again_and_the_others_are() -> None:
    """The body caught the timeout of the first payment, whose job was cancelled, and paid once more."""
    second = stage.call("pay2", name="shop.pay")
    children = [stage.child("pay", JobState.CANCELLED), stage.child("pay2", JobState.DEAD, error=stage.BOOM)]
    async with stage.opened(running(3, suspensions=2), *children) as harness:
        calls = (PAY,), (second,)
        await keep_turns(harness, *calls, closed=("pay",))
        await harness.publish(stage.failed(3, error=HOPELESS), then=60)
        await harness.publish(continued("resume", retry=("pay",)), then=1)
        reason = "the workflow no longer waits for it; those that can be are pay2"
        assert replies(harness) == [(False, f"expected a failed call, got pay: {reason}")]
        await harness.publish(continued("resume", 2, retry=("shop.pay",)), then=1)
        assert len(harness.requested()) == 1
        await end_again(harness, stage.succeeded(result=70))
        assert last_turn(harness).attempt == 4


async def test_a_retry_of_a_closed_call_that_an_earlier_release_has_stored_holds_nothing_up() -> None:
    async with stage.opened(running(3, suspensions=2), stage.child("pay", JobState.CANCELLED)) as harness:
        await keep_turns(harness, (PAY,), (NOTIFY,), closed=("pay",))
        await harness.publish(stage.failed(3, error=HOPELESS), then=60)
        again = PAY.model_copy(update={"job_id": AGAIN, "retry_of": PAY.job_id})
        turn = TurnRow(job_id=stage.JOB, attempt=3, suspension=events.Suspension(calls=(again,)))
        await harness.store.keep_suspensions([turn])
        await harness.publish(continued("resume"), then=1)
        assert last_turn(harness).attempt == 4
        assert not harness.requested()


async def test_a_job_type_stands_for_the_failures_that_the_body_has_not_handled() -> None:
    """It tries three times, and fails with the third: other answers of the first two would change its way."""
    tries = [stage.call(f"pay{number}", name="shop.pay") for number in (1, 2, 3)]
    children = [stage.child(each.call_id, JobState.DEAD, error=stage.BOOM) for each in tries]
    async with stage.opened(running(4, suspensions=3), *children) as harness:
        await keep_turns(harness, *([each] for each in tries))
        await harness.publish(stage.failed(4, error=HOPELESS), then=60)
        await harness.publish(continued("resume", retry=("shop.pay",)), then=1)
        assert [UUID(one.id) for one in harness.requested()] == [
            child_job_id(stage.JOB, f"pay3~{tries[2].job_id}")
        ]


async def test_another_retry_than_the_one_that_is_stored_is_refused() -> None:
    async with stage.opened(running(), FAILED_PAY, stage.child("notify")) as harness:
        await hold_by_pay(harness)
        again = PAY.model_copy(update={"job_id": AGAIN, "retry_of": FAILED_PAY.job_id})
        turn = TurnRow(job_id=stage.JOB, attempt=2, suspension=events.Suspension(calls=(again,)))
        await harness.store.keep_suspensions([turn])
        await harness.publish(continued("resume", retry=("notify",)), then=1)
        assert replies(harness) == [
            (
                False,
                "expected a call whose retry is stored already (pay), got notify; resume the workflow "
                "without naming others",
            )
        ]
        assert (await harness.row()).is_held
        await harness.publish(continued("resume", 2, retry=(str(FAILED_PAY.job_id),)), then=1)
        assert [one.id for one in harness.requested()] == [str(AGAIN)], "the repeat of a command"


async def keep_turns(
    harness: stage.SupervisorHarness, *calls: Sequence[events.Call], closed: tuple[str, ...] = ()
) -> None:
    """Store turns that made these calls, each of which has failed unless a later turn has closed it."""
    failed = [
        tuple(
            events.Answer(call_id=each.call_id, at=stage.NOW, state=JobState.DEAD, error=stage.BOOM)
            for each in some
            if each.call_id not in closed
        )
        for some in calls
    ]
    for number, (some, answers) in enumerate(zip([*calls, ()], [(), *failed], strict=True), 1):
        of = events.Suspension(calls=tuple(some), closed=closed if number == 2 else ())
        suspension = of if number <= len(calls) else None
        turn = TurnRow(job_id=stage.JOB, attempt=number, answers=answers, began_at=stage.NOW)
        await harness.store.keep_answers([turn])
        if suspension is not None:
            await harness.store.keep_suspensions([replace(turn, suspension=suspension)])


def last_turn(harness: stage.SupervisorHarness) -> events.AttemptDispatchedData:
    """The last turn of the workflow that was dispatched."""
    return [one.data for one in harness.dispatched() if one.data.job_id == stage.JOB][-1]
