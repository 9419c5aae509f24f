"""Whole systems that run workflows in virtual time: requests, waits, and what must hold of orders."""

from collections import Counter
from typing import Any
from uuid import UUID

from tests.simulation import workflow_handlers
from tests.simulation.invariants import check
from tests.simulation.workload import job_request
from tests.simulation.world import World

from warrener_agent import Agent
from warrener_contracts.events import HeldAction, JobContinueRequested, JobSignalRequested
from warrener_contracts.identity import UNDO_SOURCE
from warrener_contracts.messages import Message, build_message
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow
from warrener_store.workflows.rows import TurnRow

_MAY_DIE = {"fulfil", "bundle", "ship", "charge", "reserve"}
_UNDONE_WITH = {"charge": "refund", "reserve": "release"}


def new_world(seed: int, **parts: Any) -> World:
    world = World(seed, **parts)
    world.handlers = workflow_handlers.agent
    return world


def small_world(seed: int) -> World:
    return new_world(seed, schedulers=1, supervisors=1, agents=1, rests=(1.0,))


async def request(world: World, workflow: str, expires_after: int | None = None, **arguments: Any) -> UUID:
    job_id = world.entropy.new_id()
    await world.publish(job_request(job_id, workflow, arguments=arguments, expires_after=expires_after))
    return job_id


def signal(job_id: UUID, name: str, data: Any, number: int = 0) -> Message:
    event = {
        "id": f"{name}-{number}-{job_id}",
        "source": "test",
        "data": {"job_id": job_id, "name": name, "data": data},
    }
    return build_message(JobSignalRequested.model_validate(event))


async def settle(world: World, *job_ids: UUID, within: float = 600.0) -> None:
    """Until all jobs are over, and for a while after: late messages must find nothing to do."""
    await end(world, *job_ids, within=within)
    await world.clock.advance(20)


async def end(world: World, *job_ids: UUID, within: float = 600.0) -> None:
    await world.clock.run_until(
        lambda: world.settled() and set(job_ids) <= world.store.jobs.keys(), within=within
    )


async def check_orders(world: World, *job_ids: UUID) -> None:
    """Each effect once; of an order that did not succeed, each is taken back."""
    await check(world, job_ids, may_die=_MAY_DIE)
    times = Counter(effects(world))
    assert set(times.values()) <= {1}, f"effects that happened twice: {times}"
    dead_undos = {
        (row.job_type, row.arguments["order"])
        for row in world.store.jobs.values()
        if row.source.startswith(UNDO_SOURCE) and row.state is JobState.DEAD  # by losses: `check` sees to it
    }
    for row in world.store.jobs.values():
        if row.job_type in ("fulfil", "bundle"):
            order = row.arguments["order"]
            for effect, undo in _UNDONE_WITH.items():
                happened = (effect, order) in times
                undone = (undo, order) in times or (undo, order) in dead_undos
                if row.state is JobState.SUCCEEDED:
                    assert not undone, f"{undo} of {order}, which succeeded"
                else:
                    assert undone or not happened, f"no {undo} of {order}, which is {row.state}"
            if row.job_type == "fulfil":
                assert (("ship", order) in times) >= (row.state is JobState.SUCCEEDED)


def effects(world: World) -> list[tuple[str, int]]:
    """The effects in the order in which they were committed: the job type, and its number or order."""
    rows = [world.store.jobs[job_id] for job_id, _ in world.ledger.effects]
    return [(row.job_type, number_of(row)) for row in rows]


def number_of(row: JobRow) -> int:
    number: int = row.arguments["order"] if "order" in row.arguments else row.arguments["number"]
    return number


def children(world: World, job_id: UUID) -> list[JobRow]:
    return [row for row in world.store.jobs.values() if row.parent_id == job_id]


async def turns_of(world: World, job: UUID) -> list[TurnRow]:
    return (await world.store.turns_of([job]))[job]


def end_hold(job_id: UUID, action: HeldAction, *retry: str) -> Message:
    data = {"job_id": job_id, "action": action, "retry": retry}
    event = {"id": f"{action}-{job_id}", "source": "test", "data": data}
    return build_message(JobContinueRequested.model_validate(event))


async def deploy(world: World, release: Agent) -> None:
    """Stop the agent, and start one with other code."""
    world.handlers = release
    world.process("agent").drain_requested.set()
    await world.clock.advance(10)


async def wait_uncharged(world: World, order: UUID, release: Agent, why: str) -> None:
    """Deploy code that does not fit the journal of an order, approve it, and deploy code that fits again."""
    usual = world.handlers
    await deploy(world, release)
    await world.publish(signal(order, "approved", 1))
    await world.clock.advance(60)
    row = world.store.jobs[order]
    assert (row.state, row.failures) == (JobState.RETRYING, 0)
    assert row.error is not None
    assert why in row.error.message
    assert effects(world) == [("reserve", 1), ("charge", 1)]
    await deploy(world, usual)
    await settle(world, order)
    await check_orders(world, order)
    assert world.store.jobs[order].state is JobState.SUCCEEDED
