"""The stories that workflows must survive, by name. Those that have tests elsewhere:

- child and suspension commit in every interleaving: `test_workflows.py`,
  `test_child_and_suspension_commit_in_every_interleaving`;
- a cancel during undo: there, `test_a_cancel_while_it_is_undone_does_not_stop_the_undos`;
- an older supervisor beside new ones: `tests/acceptance/test_upgrade.py`.
"""

from collections import Counter
from datetime import timedelta
from uuid import UUID

import pytest
from tests.simulation.handlers import shop
from tests.simulation.invariants import check
from tests.simulation.memory_ledger import MemoryLedger
from tests.simulation.workflow_handlers import agent as orders
from tests.simulation.workflow_handlers import charge, jobs, load, refund, release, reserve, ship
from tests.simulation.workflow_world import children, effects, request, settle, signal, wait_uncharged
from tests.simulation.workload import job_request
from tests.simulation.world import Process, World

from warrener_agent import Agent, JobContext, Workflow
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import STATUS

stories, other_arguments = Agent(), Agent()
for _agent in (stories, other_arguments):
    _agent.include(jobs)
TURNS = 10


@stories.job("pay", start_timeout="60s", timeout="6s", max_attempts=1)
async def pay(job: JobContext, order: int) -> int:
    """Charges outside of any transaction, and does not come back."""
    shop().till.append(f"charged {order}")
    return await shop().work(job, 1000.0, order)


@stories.job("pay_back", start_timeout="60s")
async def pay_back(job: JobContext, order: int) -> int:
    shop().till.append(f"refunded {order}")
    return await shop().work(job, 0.2, order)


@stories.workflow("buy", start_timeout="60s")
async def buy(flow: Workflow, order: int) -> int:
    return await flow.undo(pay_back, order=order).call(pay, order=order)


@stories.workflow("tidy", start_timeout="60s")
async def tidy(flow: Workflow, order: int) -> int:
    try:
        return sum([await flow.call(load, number=number) for number in range(TURNS)])
    finally:
        await flow.call(release, order=order)


@stories.workflow("mixed", start_timeout="60s")
async def load_mixed(flow: Workflow) -> list[object]:
    loaded = await flow.map("load", [{"number": 0}, {"number": "one"}, {"number": 2}], in_flight=3)
    (failed,) = loaded.failures
    error = failed.error
    return [loaded.succeeded, loaded.results, failed.key, error.type if error is not None else None]


@stories.workflow("clocked", start_timeout="60s")
async def read_times(flow: Workflow) -> list[float]:
    times = [flow.now().timestamp()]
    for number in range(4):
        await flow.call(load, number=number)
        times.append(flow.now().timestamp())
        await flow.sleep(timedelta(seconds=10))
        times.append(flow.now().timestamp())
    return times


@other_arguments.workflow("fulfil", start_timeout="60s", max_attempts=5)
async def fulfil(flow: Workflow, order: int, *, approved: bool = True) -> int:
    await flow.undo(release, order=order).call(reserve, order=order + 1)
    await flow.undo(refund, order=order).call(charge, order=order)
    return await flow.call(ship, order=order, works=approved)


def world_of(handlers: Agent, *, agents: int = 1) -> World:
    world = World(1, schedulers=1, supervisors=1, agents=agents, rests=(1.0,))
    world.handlers = handlers
    return world


async def test_agent_a_whose_ledger_comes_back_after_turn_2_takes_the_next_turn_and_calls_nothing_again() -> (
    None
):
    async with World(1, schedulers=1, supervisors=1, agents=2, rests=(1.0,), separate_ledgers=True) as world:
        world.handlers = orders
        for process in world.processes:
            process.drain_requested.set()  # they come back with these handlers
        await world.clock.advance(5)
        agents = [process for process in world.processes if process.name.startswith("agent")]
        for one in agents:
            one.life.forbidden.add(STATUS)
        order = await request(world, "fulfil", order=1, approved=False)
        await world.clock.run_until(lambda: any(_knows(world, one, order) for one in agents), within=30)
        first = next(one for one in agents if _knows(world, one, order))
        second = next(one for one in agents if one is not first)
        await world.clock.advance(1)  # its first turn is recorded, and its report cannot go out
        _ledger(world, first).away = True
        first.life.dead.set()
        second.life.forbidden.clear()
        await world.clock.run_until(lambda: _waits_for_approval(world, order), within=120)
        assert world.store.jobs[order].attempt > 2
        assert _knows(world, second, order)

        _ledger(world, first).away, _ledger(world, second).away = False, True
        await world.clock.advance(20)
        await world.publish(signal(order, "approved", 1))
        await world.clock.run_until(
            lambda: any(row.job_type == "ship" for row in children(world, order)), within=120
        )
        _ledger(world, second).away = False
        await settle(world, order)
        row = world.store.jobs[order]
        assert (row.state, row.result) == (JobState.SUCCEEDED, 1)
        calls = Counter(child.job_type for child in children(world, order))
        assert calls == {"reserve": 1, "charge": 1, "ship": 1}
        happened = Counter(job_id for one in agents for job_id, _ in _ledger(world, one).effects)
        assert happened == {child.job_id: 1 for child in children(world, order)}


def _ledger(world: World, process: Process) -> MemoryLedger:
    assert world.separate_ledgers is not None
    return world.separate_ledgers[process.clock]


def _knows(world: World, process: Process, job_id: UUID) -> bool:
    return _ledger(world, process).entries.get(job_id) is not None


def _waits_for_approval(world: World, order: UUID) -> bool:
    charged = any(row.job_type == "charge" and row.state.terminal for row in children(world, order))
    return charged and world.store.jobs[order].state is JobState.SUSPENDED


async def test_a_child_that_had_charged_when_its_timeout_came_is_refunded() -> None:
    async with world_of(stories) as world:
        job = await request(world, "buy", order=7)
        await settle(world, job)
        assert world.store.jobs[job].state is JobState.DEAD
        assert world.workshop.till == ["charged 7", "refunded 7"]


async def test_finally_with_a_call_runs_in_ten_turns_and_calls_once() -> None:
    async with world_of(stories) as world:
        job = await request(world, "tidy", order=1)
        await settle(world, job)
        await check(world, [job])
        row = world.store.jobs[job]
        assert (row.state, row.result) == (JobState.SUCCEEDED, sum(range(TURNS)))
        assert row.attempt > TURNS
        assert effects(world) == [*(("load", number) for number in range(TURNS)), ("release", 1)]


async def test_a_rejected_member_of_a_map_fails_alone_with_its_reason() -> None:
    async with world_of(stories) as world:
        job = await request(world, "mixed")
        await settle(world, job)
        assert world.store.jobs[job].result == [2, [0, None, 2], "1", "Rejected"]


@pytest.mark.parametrize("when", ["while it runs", "after its end"])
async def test_a_deduplicated_child_is_one_job_and_answers_its_call(when: str) -> None:
    async with world_of(stories) as world:
        job = await request(world, "tidy", order=1)
        await world.clock.run_until(lambda: bool(children(world, job)), within=30)
        (child,) = children(world, job)
        if when == "after its end":
            await world.clock.run_until(lambda: len(children(world, job)) > 1, within=30)
        again = job_request(child.job_id, "load", arguments={"number": 0})
        await world.publish(again, again)
        await settle(world, job)
        await check(world, [job])
        assert world.store.jobs[job].result == sum(range(TURNS))
        assert len(children(world, job)) == TURNS + 1


async def test_an_order_under_changed_arguments_waits_uncharged_for_the_arguments_of_its_journal() -> None:
    async with world_of(orders) as world:
        order = await request(world, "fulfil", order=1, approved=False)
        await world.clock.advance(30)
        await wait_uncharged(world, order, other_arguments, "with other arguments")


@pytest.mark.parametrize(("of_agent", "of_supervisor"), [(300.0, -300.0), (-300.0, 300.0)])
async def test_two_clocks_that_differ_by_minutes_show_a_workflow_one_time(
    of_agent: float, of_supervisor: float
) -> None:
    world = world_of(stories)
    for process in world.processes:
        process.clock.wrong = of_agent if process.name.startswith("agent") else of_supervisor
    async with world:
        began = world.clock.monotonic()
        job = await request(world, "clocked")
        await world.clock.run_until(lambda: world.settled() and job in world.store.jobs, within=90)
        times: list[float] = world.store.jobs[job].result
        assert times == sorted(times), "its time never goes back"
        slept = [after - before for before, after in zip(times[1::2], times[2::2], strict=True)]
        assert all(9.9 <= seconds <= 15 for seconds in slept), slept
        assert times[-1] - times[0] <= world.clock.monotonic() - began + 1
