"""Unique jobs: never two of a key at once, wherever a process dies; each request is answered, each end is
published, and nobody frees a key by hand."""

import asyncio
import os
from collections import Counter
from functools import partial
from typing import Any, Literal
from uuid import UUID

import pytest
from tests.simulation.crash_injection import strike_each_call
from tests.simulation.handlers import shop
from tests.simulation.invariants import check
from tests.simulation.workload import job_request
from tests.simulation.world import World

from warrener_agent import Agent, ChildJobFailed, JobContext, Unique, Workflow, debounce
from warrener_contracts.events import JobDeduplicated, JobFinished, JobRejected
from warrener_contracts.messages import Message
from warrener_contracts.state_machine import JobState

KEY = "{{ arguments.index }}"
unique = Agent()


async def _reindex(job: JobContext, kind: str, index: str, seconds: float) -> int:
    with shop().working_for(f"{kind} {index}", job.job_id):
        return await shop().work(job, seconds, 7)


@unique.job("rejects", unique=Unique(KEY), start_timeout="60s")
async def rejects(job: JobContext, index: str, seconds: float = 3.0) -> int:
    return await _reindex(job, "rejects", index, seconds)


@unique.job("first", unique=Unique(KEY, repeat="first"), start_timeout="60s")
async def first(job: JobContext, index: str, seconds: float = 3.0) -> int:
    return await _reindex(job, "first", index, seconds)


@unique.job("replaces", unique=Unique(KEY, repeat="replace"), start_timeout="60s")
async def replaces(job: JobContext, index: str, seconds: float = 1.0) -> int:
    return await _reindex(job, "replaces", index, seconds)


@unique.job(
    "settles", unique=Unique(KEY, until="finished", repeat=debounce("4s", longest="10s")), start_timeout="60s"
)
async def settles(job: JobContext, index: str, seconds: float = 1.0) -> int:
    return await _reindex(job, "settles", index, seconds)


@unique.workflow("caller", max_attempts=1)
async def caller(flow: Workflow, kind: str, index: str, delay: float = 0) -> str:
    caller_of = flow.options(delay=delay) if delay else flow
    try:
        return str(await caller_of.call(kind, {"index": index}))
    except ChildJobFailed as failed:
        return f"{failed.state}: {failed.error.message if failed.error else ''}"


_ENOUGH = 900  # calls
_STRIDE = int(os.environ.get("WARRENER_CRASH_STRIDE", "9"))


@pytest.mark.parametrize("effect_first", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("kind", "how"),
    [("scheduler", "dies"), ("scheduler", "is failed"), ("supervisor", "dies"), ("supervisor", "is failed")],
)
async def test_one_of_each_key_is_left_whichever_call_of_a_process_is_struck(
    kind: str, how: Literal["dies", "is failed"], *, effect_first: bool
) -> None:
    story = partial(_story, kind, how, effect_first=effect_first)
    stride = _STRIDE if kind == "scheduler" else 3 * _STRIDE
    await strike_each_call(story, stride, effect_first=effect_first, most=_ENOUGH)


async def _story(kind: str, how: str, nth: int, *, effect_first: bool) -> bool:
    world = World(nth, schedulers=2, supervisors=1, agents=1, rests=(1.0,), early_ack=900.0)
    world.handlers = unique
    async with world:
        life = world.process(kind).life
        life.strike_at(nth, effect_first=effect_first, deadly=how == "dies")
        sent = [await _send(world, kind, "a", **more) for kind, more in _MIXED]
        await world.clock.advance(1.5)
        sent += [await _send(world, kind, "a", **more) for kind, more in _MIXED]
        flows = [
            await _call(world, "first"),
            await _call(world, "rejects"),
            await _call(world, "replaces", 5),
        ]
        await world.clock.advance(1.5)
        sent += [await _send(world, "replaces", "a", delay=3), await _send(world, "settles", "a")]
        await world.clock.run_until(
            lambda: world.settled() and set(flows) <= world.store.jobs.keys() and _answered(world, sent),
            within=400,
        )
        struck = life.struck
        await world.clock.advance(40)
        accepted = [job_id for job_id in sent if job_id in world.store.jobs]
        rejected = _end_of_rejected_call(world)
        await check(world, [*accepted, *flows], may_die={"rejects"} if rejected else set())
        _check_one_at_once(world)
        results = [world.store.jobs[flow].result for flow in flows]
        assert results[0] == "7", "the call has the result of the job that stood for it, or of its own"
        assert results[1] == "7" or "got " in results[1]
        assert results[2] == "7" or "replaced by job" in results[2]
        return struck


_MIXED: list[tuple[str, dict[str, Any]]] = [
    ("rejects", {}),
    ("first", {}),
    ("replaces", {"delay": 3}),
    ("settles", {}),
]


def _end_of_rejected_call(world: World) -> bool:
    return any(row.state is JobState.DEAD for row in world.store.jobs.values())


def _answered(world: World, sent: list[UUID]) -> bool:
    """True if each of these is a job, or its requester knows why not."""
    known = set(world.store.jobs)
    for event in world.published:
        if isinstance(event, JobRejected) and event.data.job_id is not None:
            known.add(event.data.job_id)
        elif isinstance(event, JobDeduplicated):
            known.add(event.data.requested_job_id)
    return known >= set(sent)


def _check_one_at_once(world: World) -> None:
    assert set(world.workshop.busiest.values()) == {1}, world.workshop.busiest
    replaced = [
        row for row in world.store.jobs.values() if (row.cancel_reason or "").startswith("replaced by")
    ]
    assert all(row.state is JobState.CANCELLED and not world.workshop.runs[row.job_id] for row in replaced)
    for row in replaced:
        by = UUID((row.cancel_reason or "").rpartition(" ")[2])
        assert by in world.store.jobs, "it was replaced by a job that there is"


async def test_thousands_of_repeats_at_once_make_one_job_each_while_schedulers_die() -> None:
    """2,000 requests in bursts, to three schedulers, of which one after the other is killed."""
    world = World(1, schedulers=3, supervisors=2, agents=2, rests=(0.5, 2.0))
    world.handlers = unique
    async with world:

        async def kill() -> None:
            for _ in range(20):
                await world.clock.sleep(world.dice.choice((0.1, 0.3, 1.0)))
                world.processes[world.dice.randint(0, 2)].life.dead.set()

        killing = asyncio.create_task(kill())
        sent: list[UUID] = []
        for _ in range(10):
            messages: list[Message] = []
            for number in range(200):
                kind, job_id = ("rejects", "first", "replaces", "settles")[number % 4], world.entropy.new_id()
                index = "ab"[number % 8 // 4]
                delay = {"delay": 1.5} if kind == "replaces" else {}
                arguments = {"index": index, "seconds": 0.4}
                messages.append(job_request(job_id, kind, arguments=arguments, reply_to="asker", **delay))
                sent.append(job_id)
            await world.publish(*messages)
            await world.clock.advance(0.7)
        await world.clock.run_until(
            lambda: killing.done() and world.settled() and _answered(world, sent), within=900
        )
        await world.clock.advance(40)
        await check(world, [job_id for job_id in sent if job_id in world.store.jobs])
        _check_one_at_once(world)
        _check_answers(world, sent)
        runs = Counter(world.store.jobs[job_id].job_type for job_id in world.workshop.runs)
        assert all(2 <= runs[kind] <= 200 for kind in ("rejects", "first", "replaces", "settles")), runs
        for kind in ("rejects", "first"):  # every key is free again
            await _send(world, kind, "a", seconds=0.1)
        await world.clock.run_until(world.settled, within=60)
        again = Counter(world.store.jobs[job_id].job_type for job_id in world.workshop.runs)
        assert (again["rejects"], again["first"]) == (runs["rejects"] + 1, runs["first"] + 1)


def _check_answers(world: World, sent: list[UUID]) -> None:
    """Each requester has an end: of its job, or of that which stood for it, or a rejection."""
    ended = {event.data.job_id for event in world.published if isinstance(event, JobFinished)}
    for event in world.published:
        if isinstance(event, JobRejected) and event.data.job_id is not None:
            ended.add(event.data.job_id)
        elif isinstance(event, JobDeduplicated):
            assert event.data.job_id in world.store.jobs
            ended.add(event.data.requested_job_id)
    assert ended >= set(sent)


async def _send(world: World, kind: str, index: str, *, delay: float | None = None, **arguments: Any) -> UUID:
    job_id, arguments = world.entropy.new_id(), {"index": index, **arguments}
    more: dict[str, Any] = {} if delay is None else {"delay": delay}
    await world.publish(job_request(job_id, kind, arguments=arguments, reply_to="asker", **more))
    return job_id


async def _call(world: World, kind: str, delay: float = 0) -> UUID:
    job_id = world.entropy.new_id()
    arguments = {"kind": kind, "index": "a", "delay": delay}
    await world.publish(job_request(job_id, "caller", arguments=arguments))
    return job_id
