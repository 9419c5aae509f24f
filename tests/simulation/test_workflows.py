"""Workflows on a whole system in virtual time: each call runs once, each undo once, and none is stuck,
whatever dies. Stories of orders: nobody is charged without a parcel or a refund."""

import asyncio
import os
from collections import Counter
from functools import partial
from itertools import accumulate
from typing import Any, Literal
from uuid import UUID

import pytest
from tests.simulation import workflow_handlers
from tests.simulation.crash_injection import strike_each_call
from tests.simulation.fault_injection import inject_faults
from tests.simulation.invariants import check
from tests.simulation.workflow_handlers import PATIENCE
from tests.simulation.workflow_world import (
    check_orders,
    children,
    effects,
    end,
    end_hold,
    new_world,
    request,
    settle,
    signal,
    small_world,
    turns_of,
    wait_uncharged,
)
from tests.simulation.workload import cancel_request, job_request
from tests.simulation.world import World

from warrener_contracts.events import HeldAction
from warrener_contracts.journals import answers_by_call
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import STATUS
from warrener_store.jobs import views
from warrener_store.jobs.rows import AttemptRow

SEEDS = int(os.environ.get("WARRENER_WORKFLOW_SEEDS", "6"))
# A seventh as often as `test_crash_anywhere.py`: the supervisor makes 900 calls.
_STRIDE = 7 * int(os.environ.get("WARRENER_CRASH_STRIDE", "9"))
_ENOUGH = 2000  # calls; each story makes fewer, and ends the count itself


# -- what a workflow does, undisturbed ---------------------------------------------------------------------


async def test_an_order_is_shipped_once_somebody_has_approved_it() -> None:
    async with small_world(1) as world:
        order = await request(world, "fulfil", order=1, approved=False)
        await world.clock.advance(30)
        assert world.store.jobs[order].state is JobState.SUSPENDED
        assert effects(world) == [("reserve", 1), ("charge", 1)]
        await world.publish(signal(order, "approved", 1))
        await settle(world, order)
        await check_orders(world, order)
        assert effects(world) == [("reserve", 1), ("charge", 1), ("ship", 1)]
        row = world.store.jobs[order]
        assert (row.state, row.result, row.failures, row.losses) == (JobState.SUCCEEDED, 1, 0, 0)
        assert len(await world.store.attempts_of([order])) == 1, "a suspension has no row among the attempts"


async def test_an_order_that_cannot_be_shipped_is_undone_newest_call_first() -> None:
    async with small_world(1) as world:
        order = await request(world, "fulfil", order=1, ships=False)
        await settle(world, order)
        await check_orders(world, order)
        assert effects(world) == [("reserve", 1), ("charge", 1), ("refund", 1), ("release", 1)]
        row = world.store.jobs[order]
        assert row.state is JobState.DEAD
        assert row.error is not None
        assert "ChildJobFailed" in row.error.type


async def test_an_order_that_nobody_approves_is_undone_when_its_time_is_over() -> None:
    async with small_world(1) as world:
        order = await request(world, "fulfil", order=1, approved=False)
        await world.clock.advance(PATIENCE - 60)
        assert world.store.jobs[order].state is JobState.SUSPENDED
        await settle(world, order)
        await check_orders(world, order)
        assert effects(world)[2:] == [("refund", 1), ("release", 1)]
        assert world.store.jobs[order].state is JobState.DEAD


async def test_an_order_whose_deadline_passes_expires_and_is_undone() -> None:
    async with small_world(1) as world:
        order = await request(world, "fulfil", 60, order=1, approved=False)
        await settle(world, order)
        await check_orders(world, order)
        assert effects(world)[2:] == [("refund", 1), ("release", 1)]
        assert world.store.jobs[order].state is JobState.EXPIRED


async def test_a_charge_that_timed_out_is_refunded_because_it_may_have_charged() -> None:
    async with small_world(1) as world:
        order = await request(world, "fulfil", order=1, charge_seconds=100.0)
        await settle(world, order)
        await check_orders(world, order)
        (charge,) = (row for row in children(world, order) if row.job_type == "charge")
        assert charge.state is JobState.DEAD
        assert effects(world) == [("reserve", 1), ("refund", 1), ("release", 1)]


@pytest.mark.parametrize("items", [0, 1, 4, 20])
async def test_a_map_runs_each_item_once(items: int) -> None:
    async with new_world(1) as world:
        job = await request(world, "import", items=items, in_flight=5)
        await settle(world, job)
        await check_orders(world, job)
        assert world.store.jobs[job].result == items
        loads = children(world, job)
        assert sorted(row.arguments["number"] for row in loads) == list(range(items))
        attempts = await world.store.attempts_of([row.job_id for row in loads])
        assert max_at_once(attempts) <= 5


def max_at_once(attempts: list[AttemptRow]) -> int:
    moments = [(one.started_at, 1) for one in attempts if one.started_at]
    moments += [(one.finished_at, -1) for one in attempts if one.started_at]
    running = list(accumulate(change for _, change in sorted(moments)))
    return max(running, default=0)


async def test_a_map_is_joined_without_a_look_at_its_parent_for_each_child() -> None:
    async with small_world(1) as world:
        job = await request(world, "import", items=20, in_flight=5)
        await settle(world, job, within=60)
        row = world.store.jobs[job]
        assert row.suspensions <= 2 * 5, "one for each batch that was requested, and one for each that ended"


async def test_a_map_stops_after_so_many_failures_and_cancels_what_is_left() -> None:
    async with small_world(1) as world:
        job = await request(world, "picky", items=20, stop_after=2)
        await settle(world, job, within=120)
        await check(world, [job], may_die={"ship"})
        row, states = world.store.jobs[job], Counter(one.state for one in children(world, job))
        assert row.result == ["stopped", 2]
        assert states[JobState.DEAD] == 2
        assert states[JobState.CANCELLED]
        assert set(states) <= {JobState.DEAD, JobState.CANCELLED, JobState.SUCCEEDED}


@pytest.mark.parametrize("how", ["timeout", "cancel", "tree"])
async def test_a_map_that_nothing_awaits_any_longer_cancels_its_jobs(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(views, "MAX_CHILDREN", 3)
    async with small_world(1) as world:
        job = await request(world, "slow", items=20, seconds=3 if how == "timeout" else None)
        await world.clock.advance(2)
        if how != "timeout":
            await world.publish(cancel_request(job, tree=how == "tree"))
        await settle(world, job, within=120)
        await check(world, [job])
        assert world.store.jobs[job].state is (JobState.SUCCEEDED if how == "timeout" else JobState.CANCELLED)
        loads = children(world, job)
        assert loads
        assert {one.state for one in loads} <= {JobState.CANCELLED, JobState.SUCCEEDED}
        assert JobState.CANCELLED in {one.state for one in loads}


async def test_a_rejected_job_of_a_map_is_a_failure_of_the_map() -> None:
    async with small_world(1) as world:
        job = await request(world, "careless_all")
        await settle(world, job, within=60)
        assert world.store.jobs[job].result == [2, 3, ["Rejected"] * 3]


@pytest.mark.parametrize("ships", [True, False])
async def test_a_workflow_calls_a_workflow_and_its_failure_undoes_both(*, ships: bool) -> None:
    async with small_world(1) as world:
        job = await request(world, "bundle", order=1, ships=ships)
        await settle(world, job)
        await check_orders(world, job)
        inner = [("reserve", 2), ("charge", 2)]
        if ships:
            assert effects(world) == [("charge", 1), *inner, ("ship", 2)]
            assert world.store.jobs[job].state is JobState.SUCCEEDED
        else:
            assert effects(world) == [("charge", 1), *inner, ("refund", 2), ("release", 2), ("refund", 1)]
            assert world.store.jobs[job].state is JobState.DEAD


async def test_a_turn_that_fails_is_tried_again_with_the_same_journal() -> None:
    async with small_world(1) as world:
        job = await request(world, "shaky", order=1, failures=3)
        await settle(world, job)
        await check_orders(world, job)
        assert effects(world) == [("reserve", 1), ("ship", 1)]
        assert world.store.jobs[job].state is JobState.SUCCEEDED
        assert world.store.jobs[job].failures == 0, "a turn that adds a call begins to count again"


async def test_a_turn_that_always_fails_ends_the_workflow() -> None:
    async with small_world(1) as world:
        job = await request(world, "shaky", order=1, failures=99)
        await settle(world, job)
        await check(world, [job], may_die={"shaky"})
        assert (world.store.jobs[job].state, world.store.jobs[job].failures) == (JobState.DEAD, 4)


@pytest.mark.parametrize("kind", ["agent", "supervisor"])
@pytest.mark.parametrize("nth", [None, 2, 5, 8, 11, 14])
async def test_a_step_is_tried_again_between_turns_whatever_dies(kind: str, nth: int | None) -> None:
    async with small_world(1) as world:
        if nth is not None:
            world.process(kind).life.strike_at(nth, effect_first=bool(nth % 2))
        job = await request(world, "patient", order=1, failures=5)
        await settle(world, job)
        await check(world, [job])
        row = world.store.jobs[job]
        assert (row.state, row.failures, effects(world)) == (
            JobState.SUCCEEDED,
            0,
            [("reserve", 1), ("ship", 1)],
        )
        (answer,) = [one for one in answers_by_call(await turns_of(world, job)).values() if one.tries > 1]
        assert answer.tries <= 6, "a death forgets tries of one turn, and adds none"


@pytest.mark.parametrize("nth", [None, 1, 2, 4, 8, 16])
@pytest.mark.parametrize("action", [HeldAction.RESUME, HeldAction.UNDO])
async def test_a_workflow_that_fails_is_held_until_an_operator_resumes_or_undoes_it(
    action: HeldAction, nth: int | None
) -> None:
    """A supervisor that dies at the `nth` call behind the command loses neither."""
    async with small_world(1) as world:
        job = await request(world, "careful", order=1, failures=3)
        await world.clock.run_until(
            lambda: job in world.store.jobs and world.store.jobs[job].is_held, within=60
        )
        await world.clock.advance(1200 if nth is None else 30)  # the look of 15 minutes leaves it as it is
        row = world.store.jobs[job]
        assert (row.is_held, row.failures, effects(world)) == (True, 2, [("reserve", 1)])
        if nth is not None:
            world.process("supervisor").life.strike_at(nth, effect_first=bool(nth % 3))
        await world.publish(end_hold(job, action))
        await settle(world, job)
        resumed = action is HeldAction.RESUME
        await check(world, [job], may_die=set() if resumed else {"careful"})
        row = world.store.jobs[job]
        assert row.state is (JobState.SUCCEEDED if resumed else JobState.DEAD)
        assert effects(world) == [("reserve", 1), ("ship" if resumed else "release", 1)]


@pytest.mark.parametrize("effect_first", [False, True], ids=["before", "after"])
async def test_a_failed_call_is_requested_again_once_wherever_the_supervisor_dies(
    *, effect_first: bool
) -> None:
    async def story(nth: int) -> bool:
        async with small_world(nth) as world:
            job = await request(world, "stubborn", order=1)
            await world.clock.run_until(
                lambda: job in world.store.jobs and world.store.jobs[job].is_held, within=60
            )
            await world.clock.advance(PATIENCE + 60)  # while it is held its call does not time out
            life = world.process("supervisor").life
            life.strike_at(nth, effect_first=effect_first)
            await world.publish(end_hold(job, HeldAction.RESUME, "carry"))
            await end(world, job, within=1200)
            struck = life.struck
            await world.clock.advance(20)
            await check(world, [job], may_die={"carry"})
            assert world.store.jobs[job].state is JobState.SUCCEEDED
            assert effects(world) == [("reserve", 1), ("load", 1), ("carry", 1), ("ship", 1)]
            assert [one.state for one in children(world, job) if one.job_type == "carry"] == [
                JobState.DEAD,
                JobState.SUCCEEDED,
            ]
            return struck

    await strike_each_call(story, _STRIDE, effect_first=effect_first, most=_ENOUGH)


async def test_a_child_with_bad_arguments_fails_in_its_parent() -> None:
    async with small_world(1) as world:
        job = await request(world, "careless")
        await settle(world, job)
        assert world.store.jobs[job].result == ["dead", "Rejected"]
        (child,) = children(world, job)
        assert (child.state, child.attempt) == (JobState.DEAD, 0)


async def test_an_order_under_changed_code_waits_uncharged_for_code_that_fits() -> None:
    async with small_world(1) as world:
        order = await request(world, "fulfil", order=1, approved=False)
        await world.clock.advance(30)
        await wait_uncharged(world, order, workflow_handlers.next_release, "the code has changed")


# -- signals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarting", [False, True], ids=["calm", "while everything restarts"])
async def test_signals_that_come_early_late_and_again_are_each_received_once(*, restarting: bool) -> None:
    async with new_world(3, rests=(0.1, 1.0)) as world:
        job = await request(world, "counter", signals=4)
        await world.publish(signal(job, "other", 99))
        for number in range(4):
            sent = signal(job, "number", number, number)
            await world.publish(sent, sent)
            for process in world.processes if restarting else ():
                process.life.strike_at(2, effect_first=bool(number % 2))
            await world.clock.advance((0.0, 0.5, 4.0, 30.0)[number])
            await world.publish(sent)
        await settle(world, job)
        assert world.store.jobs[job].result == [0, 1, 2, 3]
        version = world.store.jobs[job].version
        await world.publish(signal(job, "number", 5, 5))  # after its end
        await world.clock.advance(30)
        assert world.store.jobs[job].version == version, "a signal after the end changes nothing"
        await check(world, [job])


async def test_signals_that_do_not_fit_are_set_aside_and_the_wait_goes_on() -> None:
    async with small_world(1) as world:
        job = await request(world, "counter", signals=2)
        for number, data in enumerate(["one", 1, {"two": 2}, "two", 2]):
            await world.publish(signal(job, "number", data, number))
        await settle(world, job)
        row = world.store.jobs[job]
        assert (row.result, row.failures) == ([1, 2], 0)
        await check(world, [job])


# -- generations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect_first", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", ["agent", "supervisor"])
async def test_generations_follow_each_other_and_receive_each_signal_once_if_a_process_dies(
    kind: str, *, effect_first: bool
) -> None:
    async def story(nth: int) -> bool:
        async with small_world(nth) as world:
            life = world.process(kind).life
            life.strike_at(nth, effect_first=effect_first)
            counter = await request(world, "counter", signals=4)
            job = await request(world, "relay", order=1, to=str(counter), left=3)
            for number in range(1, 5):
                sent = signal(job, "go", number, number)
                await world.publish(sent, sent)
                await world.clock.advance(3)
            await end(world, counter, job)
            struck = life.struck
            await world.clock.advance(20)
            await check(world, [counter, job])
            assert effects(world) == [("reserve", number) for number in range(1, 5)]
            row = world.store.jobs[job]
            assert (row.state, row.result, row.failures) == (JobState.SUCCEEDED, 4, 0)
            assert world.store.jobs[counter].result == [1, 2, 3, 4]
            turns = await turns_of(world, job)
            assert turns[0].attempt == row.generation
            assert turns[0].suspension is not None
            assert turns[0].suspension.continued == {"order": 4, "to": str(counter), "left": 0}
            published = (await world.store.checkpoints_of([job]))[job].state
            assert published == {"order": 4}
            return struck

    await strike_each_call(story, _STRIDE, effect_first=effect_first, most=_ENOUGH)


async def test_a_cancel_undoes_the_generation_of_today_alone() -> None:
    async with small_world(1) as world:
        job = await request(world, "relay", order=1, to=str(world.entropy.new_id()), left=3)
        await world.publish(signal(job, "go", 1, 1))
        await world.clock.advance(10)
        await world.publish(cancel_request(job))
        await settle(world, job)
        assert effects(world) == [("reserve", 1), ("reserve", 2), ("release", 2)]
        assert world.store.jobs[job].state is JobState.CANCELLED


# -- cancels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tree", [False, True], ids=["the workflow", "its tree"])
@pytest.mark.parametrize("after", [0.0, 0.1, 0.3, 0.6, 1.0, 2.0, 20.0])
async def test_a_cancelled_order_is_undone_wherever_it_was(after: float, *, tree: bool) -> None:
    async with small_world(1) as world:
        order = await request(world, "fulfil", order=1, approved=False)
        await world.clock.advance(after)
        await world.publish(cancel_request(order, tree=tree, reason="changed my mind"))
        await settle(world, order)
        await check_orders(world, order)
        row = world.store.jobs[order]
        assert row.state is JobState.CANCELLED
        assert row.cancel_reason is not None
        assert row.cancel_reason.startswith("changed my mind")


async def test_an_order_that_was_cancelled_in_its_queue_is_undone_once_its_first_turn_is_reported() -> None:
    async with small_world(1) as world:
        agent = world.process("agent").life
        agent.forbidden.add(STATUS)
        order = await request(world, "fulfil", order=1, approved=False)
        await world.clock.advance(0.5)
        assert effects(world) == [("reserve", 1)], "its first turn ran, and no supervisor knows"
        await world.publish(cancel_request(order))
        await world.clock.advance(0.1)
        assert world.store.jobs[order].state is JobState.CANCELLED
        agent.forbidden.clear()
        await settle(world, order)
        await check_orders(world, order)
        assert effects(world) == [("reserve", 1), ("release", 1)]


@pytest.mark.parametrize("tree", [False, True], ids=["the workflow", "its tree"])
async def test_a_cancel_while_it_is_undone_does_not_stop_the_undos(*, tree: bool) -> None:
    async with small_world(1) as world:
        order = await request(world, "fulfil", order=1, ships=False)
        await world.clock.run_until(lambda: _undo_runs(world), within=60)
        await world.publish(cancel_request(order, tree=tree))
        await settle(world, order)
        await check_orders(world, order)
        assert effects(world)[2:] == [("refund", 1), ("release", 1)]
        assert world.store.jobs[order].state is JobState.DEAD, "its end was decided"


def _undo_runs(world: World) -> bool:
    return any(
        row.job_type == "refund" and row.state is JobState.RUNNING for row in world.store.jobs.values()
    )


# -- crashes and faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect_first", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("scheduler", "dies"),
        ("scheduler", "is failed"),
        ("supervisor", "dies"),
        ("supervisor", "is failed"),
        ("agent", "dies"),
    ],
)
async def test_a_process_is_struck_at_every_call_of_a_workflow_in_turn(
    kind: str, how: Literal["dies", "is failed"], *, effect_first: bool
) -> None:
    story = partial(_struck_story, kind, how, effect_first=effect_first)
    await strike_each_call(story, _STRIDE, effect_first=effect_first, most=_ENOUGH)


async def _struck_story(kind: str, how: str, nth: int, *, effect_first: bool) -> bool:
    """Orders and a map while the `nth` call goes wrong; whether it was made at all."""
    async with small_world(nth) as world:
        life = world.process(kind).life
        life.strike_at(nth, effect_first=effect_first, deadly=how == "dies")
        shipped = await request(world, "fulfil", order=1, approved=False)
        undone = await request(world, "fulfil", order=2, ships=False)
        mapped = await request(world, "import", items=6, in_flight=2)
        await world.clock.advance(4)
        await world.publish(signal(shipped, "approved", 1))
        await end(world, shipped, undone, mapped, within=1200)
        struck = life.struck
        await world.clock.advance(20)
        await check_orders(world, shipped, undone, mapped)
        assert world.store.jobs[shipped].state is JobState.SUCCEEDED
        assert world.store.jobs[undone].state is JobState.DEAD
        assert world.store.jobs[mapped].result == 6
        assert [one for one in effects(world) if one[1] == 2 and one[0] != "load"] == [
            ("reserve", 2),
            ("charge", 2),
            ("refund", 2),
            ("release", 2),
        ]
        return struck


@pytest.mark.parametrize("effect_first", [False, True], ids=["before", "after"])
async def test_child_and_suspension_commit_in_every_interleaving(*, effect_first: bool) -> None:
    """One pauses at each of its calls in turn, and the other goes on: no wake is lost."""

    async def story(nth: int) -> bool:
        async with new_world(nth, schedulers=1, agents=1, rests=(1.0,)) as world:
            life = world.process("supervisor").life
            life.strike_at(nth, effect_first=effect_first, pause=partial(world.clock.sleep, 3.0))
            bundled = await request(world, "bundle", order=1, ships=True)
            undone = await request(world, "bundle", order=5, ships=False)
            await end(world, bundled, undone, within=120)  # far less than the next look without a wake
            struck = life.struck
            await world.clock.advance(20)
            await check_orders(world, bundled, undone)
            assert world.store.jobs[bundled].state is JobState.SUCCEEDED
            assert world.store.jobs[undone].state is JobState.DEAD
            return struck

    await strike_each_call(story, _STRIDE, effect_first=effect_first, most=_ENOUGH)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_whatever_breaks_no_order_is_charged_in_vain_and_no_workflow_is_stuck(seed: int) -> None:
    async with new_world(seed) as world:
        requesting = asyncio.create_task(_orders(world))
        injecting = asyncio.create_task(inject_faults(world, 60.0))
        await world.clock.run_until(lambda: requesting.done() and injecting.done(), within=900)
        await injecting
        await settle(world, *await requesting, within=PATIENCE + 2400)
        await check_orders(world, *await requesting)
        for row in world.store.jobs.values():
            if row.job_type == "import" and row.state is JobState.SUCCEEDED:
                assert row.result == 20


async def _orders(world: World) -> list[UUID]:
    """Orders of every kind, some approved, some cancelled, all requested twice; and a map."""
    jobs: list[UUID] = [await request(world, "import", items=20, in_flight=5)]
    for number in range(0, 16, 2):  # a bundle needs two numbers
        await world.clock.sleep(world.dice.choice((0.1, 1.0, 6.0)))
        workflow = world.dice.choice(("fulfil", "fulfil", "bundle"))
        arguments: dict[str, Any] = {"order": 100 + number, "ships": world.dice.random() < 0.6}
        if workflow == "fulfil":
            arguments["approved"] = world.dice.random() < 0.4
        job_id = world.entropy.new_id()
        message = job_request(job_id, workflow, arguments=arguments)
        await world.publish(message, message)
        jobs.append(job_id)
        for other in jobs[1:]:
            if world.dice.random() < 0.2:
                order = 100 + 2 * (jobs.index(other) - 1)
                await world.publish(signal(other, "approved", order))
        if world.dice.random() < 0.2:
            await world.publish(cancel_request(world.dice.choice(jobs[1:]), tree=world.dice.random() < 0.5))
    return jobs
