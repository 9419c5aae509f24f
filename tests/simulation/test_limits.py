"""Jobs with limits: never more at once than there are slots, wherever a process dies; all of them end,
and no slot is lost."""

import asyncio
import os
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any, Literal
from uuid import UUID

import pytest
from tests.simulation.crash_injection import strike_each_call
from tests.simulation.handlers import shop
from tests.simulation.invariants import check
from tests.simulation.workload import cancel_request, job_request, request
from tests.simulation.world import World

from warrener_agent import Agent, JobContext, Limit, Workflow
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.events import (
    BreakerSetRequested,
    BreakerSetRequestedData,
    GateSetRequested,
    GateSetRequestedData,
    JobRejected,
    Reason,
)
from warrener_contracts.messages import build_message
from warrener_contracts.state_machine import JobState

with_limits = Agent()


@with_limits.job("part")
async def part(job: JobContext) -> int:
    return await shop().work(job, 3.0, 1)


@with_limits.job("guarded", gates=[Limit(2)], breaker=True)
async def guarded(job: JobContext) -> int:
    with shop().working_for("guarded", job.job_id):
        return await shop().work(job, 3.0, 1)


@with_limits.workflow("single", gates=[Limit(1)], max_attempts=1)
async def single(flow: Workflow, *, fails: bool) -> None:
    await flow.undo(part).call(part)
    if fails:
        raise RuntimeError("undo it")


@with_limits.job("pool.read", gates=[Limit(2, pool="crm"), Limit(3, per="queue")])
async def read_crm(job: JobContext) -> int:
    with shop().working_for("crm", job.job_id), shop().working_for("queue", job.job_id):
        return await shop().work(job, 1.0, 1)


@with_limits.job("pool.write", gates=[Limit(2, pool="crm"), Limit(3, per="queue")])
async def write_crm(job: JobContext) -> int:
    with shop().working_for("crm", job.job_id), shop().working_for("queue", job.job_id):
        return await shop().work(job, 1.0, 1)


@with_limits.job("pool.long", gates=Limit(2, pool="crm"))
async def long_crm(job: JobContext) -> int:
    with shop().working_for("crm", job.job_id):
        return await shop().work(job, 9.0, 1)


@with_limits.job("pool.other", gates=[Limit(3, per="queue")])
async def other(job: JobContext) -> int:
    with shop().working_for("queue", job.job_id):
        return await shop().work(job, 1.0, 1)


_ENOUGH = 900  # calls
_STRIDE = 5 * int(os.environ.get("WARRENER_CRASH_STRIDE", "9"))


@pytest.mark.parametrize("effect_first", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("kind", "how"),
    [("scheduler", "dies"), ("scheduler", "is failed"), ("supervisor", "dies"), ("supervisor", "is failed")],
)
async def test_a_limit_holds_whichever_call_of_a_process_is_struck(
    kind: str, how: Literal["dies", "is failed"], *, effect_first: bool
) -> None:
    story = partial(_story, kind, how, effect_first=effect_first)
    await strike_each_call(story, _STRIDE, effect_first=effect_first, most=_ENOUGH)


async def _story(kind: str, how: str, nth: int, *, effect_first: bool) -> bool:
    async with World(nth, schedulers=1, supervisors=1, agents=2, rests=(1.0,), early_ack=900.0) as world:
        life = world.process(kind).life
        life.strike_at(nth, effect_first=effect_first, deadly=how == "dies")
        jobs = [await _limited(world, tenant, seconds=0.7) for tenant in ("a", "a", "b", "a", "b")]
        jobs += [
            await _limited(world, "a", failures=1),
            await _limited(world, "b", snoozes=2),
            await _limited(world, "a", {"delay": 2}),
        ]
        unwanted = await _limited(world, "a")
        await world.clock.advance(0.5)
        await world.publish(cancel_request(unwanted))
        late = await _limited(world, "a", {"expires_after": 1}, seconds=60.0)
        await world.clock.run_until(
            lambda: world.settled() and {*jobs, unwanted, late} <= world.store.jobs.keys(), within=400
        )
        struck = life.struck
        await world.clock.advance(40)
        await check(world, [*jobs, unwanted, late], may_die={"limited"})
        assert all(world.store.jobs[job_id].state is JobState.SUCCEEDED for job_id in jobs)
        assert world.store.jobs[late].state in {JobState.EXPIRED, JobState.DEAD}, "by the first end"
        await _check_limits(world)
        return struck


@pytest.mark.parametrize("seed", range(3))
async def test_a_limit_holds_while_processes_die_at_random(seed: int) -> None:
    async with World(seed, schedulers=2, supervisors=2, agents=2, rests=(0.1, 1.0, 5.0)) as world:
        jobs = [await _some(world) for _ in range(20)]

        async def kill() -> None:
            for _ in range(12):
                await world.clock.sleep(world.dice.choice((0.3, 1.0, 3.0)))
                world.dice.choice(world.processes).life.dead.set()

        killing = asyncio.create_task(kill())
        jobs += [await _some(world) for _ in range(20)]
        await world.clock.run_until(lambda: killing.done() and world.settled(), within=900)
        await world.clock.advance(40)
        await check(world, jobs)
        await _check_limits(world)


async def _some(world: World) -> UUID:
    dice = world.dice
    fields = {"delay": 3} if dice.random() < 0.2 else {}
    arguments: dict[str, Any] = {"seconds": dice.choice((0.1, 0.7, 3.0))}
    if dice.random() < 0.3:
        arguments |= dice.choice(({"failures": 1}, {"snoozes": 2}))
    return await _limited(world, dice.choice("abc"), fields, **arguments)


async def _check_limits(world: World) -> None:
    """Never more than allowed, and nothing is left behind: the next ones run at once."""
    most = {tenant: 3 if tenant == "all" else 2 for tenant in world.workshop.busiest}
    assert all(count <= most[tenant] for tenant, count in world.workshop.busiest.items())
    assert await world.store.slots_after(("", 0), 10) == []
    assert await world.store.waited_gates("", 10) == []
    for tenant in ("a", "b", "a", "b"):
        await _limited(world, tenant, seconds=5.0)
    await world.clock.advance(4)
    assert len(+world.workshop.busy["all"]) == 3, "all slots are used again"
    await world.clock.run_until(world.settled, within=60)


async def test_those_that_wait_come_in_order_and_nobody_passes_them() -> None:
    async with World(1, schedulers=1, supervisors=1, agents=2) as world:
        holders = [await _limited(world, "a", seconds=8.0) for _ in range(2)]
        await world.clock.advance(1)
        line: list[UUID] = []
        for _ in range(4):
            line.append(await _limited(world, "a", seconds=1.0))
            await world.clock.advance(0.5)
        other = await _limited(world, "b", seconds=1.0)
        await world.clock.advance(2.5)
        jobs = world.store.jobs
        assert jobs[other].state is JobState.SUCCEEDED, "another tenant does not wait for them"
        assert [jobs[job_id].state for job_id in line] == [JobState.WAITING] * 4
        assert all(jobs[job_id].attempt == 0 for job_id in line)
        await world.clock.run_until(world.settled, within=60)
        ended = [jobs[job_id].finished_at for job_id in (*holders, *line)]
        assert ended == sorted(ended, key=str)
        await _check_limits(world)


async def test_those_that_wait_stay_while_a_breaker_is_open_and_give_it_its_probe() -> None:
    world = World(1, schedulers=1, supervisors=1, agents=2)
    world.handlers = with_limits
    async with world:
        jobs = [world.entropy.new_id() for _ in range(6)]
        for job_id in jobs:
            await world.publish(job_request(job_id, "guarded"))
        await world.clock.advance(1)
        held_for = timedelta(seconds=30)
        data = BreakerSetRequestedData(name="job:guarded", state=BreakerState.OPEN, open_for=held_for)
        await world.publish(build_message(BreakerSetRequested(id="open", source="test", data=data)))
        await world.clock.advance(20)
        rows = world.store.jobs
        assert [rows[job_id].state for job_id in jobs[:2]] == [JobState.SUCCEEDED] * 2
        assert [rows[job_id].state for job_id in jobs[2:]] == [JobState.WAITING] * 4
        assert await world.store.slots_after(("", 0), 9) == [], "a job that a breaker holds has no slot"
        await world.clock.run_until(world.settled, within=60)
        assert {rows[job_id].state for job_id in jobs} == {JobState.SUCCEEDED}
        assert world.workshop.busiest["guarded"] == 2


async def test_a_limit_of_a_workflow_counts_those_in_progress() -> None:
    world = World(1, schedulers=1, supervisors=1, agents=1)
    world.handlers = with_limits
    async with world:
        flows = [world.entropy.new_id() for _ in range(3)]
        for number, job_id in enumerate(flows):
            await world.publish(job_request(job_id, "single", arguments={"fails": number == 1}))
            await world.clock.advance(0.2)
        await world.clock.run_until(lambda: world.store.jobs[flows[0]].state is JobState.SUSPENDED, within=9)
        assert [world.store.jobs[job_id].state for job_id in flows[1:]] == [JobState.WAITING] * 2
        await world.clock.run_until(world.settled, within=200)
        rows = [world.store.jobs[job_id] for job_id in flows]
        assert [row.state for row in rows] == [JobState.SUCCEEDED, JobState.DEAD, JobState.SUCCEEDED]
        calls = [row for row in world.store.jobs.values() if row.parent_id is not None]
        for row, after in pairwise(rows):
            own = [call.accepted_at for call in calls if call.parent_id == after.job_id]
            assert row.finished_at is not None
            assert min(own) >= row.finished_at, "the next one begins when all is undone"
        assert await world.store.slots_after(("", 0), 9) == []


async def test_job_types_share_the_slots_of_a_pool_and_of_their_queue() -> None:
    world = World(1, schedulers=2, supervisors=2, agents=2)
    world.handlers = with_limits
    async with world:
        jobs = [world.entropy.new_id() for _ in range(12)]
        for job_id, job_type in zip(jobs, ["pool.read", "pool.write", "pool.other"] * 4, strict=True):
            await world.publish(job_request(job_id, job_type))
        await world.clock.run_until(world.settled, within=60)
        assert {world.store.jobs[job_id].state for job_id in jobs} == {JobState.SUCCEEDED}
        assert (world.workshop.busiest["crm"], world.workshop.busiest["queue"]) == (2, 3)
        assert await world.store.slots_after(("", 0), 9) == []
        assert await world.store.waited_gates("", 9) == []


async def test_the_line_moves_at_once_when_somebody_sets_more_slots_and_holders_go_on_with_fewer() -> None:
    world = World(1, schedulers=1, supervisors=2, agents=2)
    world.handlers = with_limits
    async with world:

        async def set_slots(slots: int | None) -> None:
            data = GateSetRequestedData(name="pool/crm", slots=slots, by="ann")
            await world.publish(build_message(GateSetRequested(id=f"to {slots}", source="test", data=data)))

        jobs = [world.entropy.new_id() for _ in range(12)]
        for job_id in jobs:
            await world.publish(job_request(job_id, "pool.long", arguments={}))
        await world.clock.advance(2)
        assert len(+world.workshop.busy["crm"]) == 2
        await set_slots(4)
        await world.clock.advance(1)
        assert len(+world.workshop.busy["crm"]) == 4
        await set_slots(1)
        await world.clock.advance(1)
        assert len(+world.workshop.busy["crm"]) == 4, "holders go on"
        await world.clock.run_until(lambda: len(+world.workshop.busy["crm"]) == 1, within=60)
        await set_slots(None)
        await world.clock.advance(1)
        assert len(+world.workshop.busy["crm"]) == 2
        await world.clock.run_until(world.settled, within=200)
        assert {world.store.jobs[job_id].state for job_id in jobs} == {JobState.SUCCEEDED}
        assert world.workshop.busiest["crm"] == 4


async def test_a_job_whose_key_cannot_be_rendered_is_rejected() -> None:
    async with World(1, schedulers=1, supervisors=1, agents=1) as world:
        job_id, message = request(world, "unkeyed", number=1, account={})
        await world.publish(message)
        await world.clock.run_until(
            lambda: any(isinstance(each, JobRejected) for each in world.published), within=9
        )
        [rejected] = [event for event in world.published if isinstance(event, JobRejected)]
        assert (rejected.data.job_id, rejected.data.reason) == (job_id, Reason.BAD_ARGUMENTS)
        assert "arguments.account.tenant" in rejected.data.detail


async def _limited(
    world: World, tenant: str, fields: dict[str, Any] | None = None, seconds: float = 0.2, **arguments: Any
) -> UUID:
    job_id, message = request(world, "limited", fields or {}, tenant=tenant, seconds=seconds, **arguments)
    await world.publish(message)
    return job_id
