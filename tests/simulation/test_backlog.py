"""A backlog is not a loss: what waits in its queue is not repeated, and what is gone from it is noticed."""

import json
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Self
from uuid import UUID

import pytest
from tests.captured_service import events_in
from tests.simulation.invariants import check
from tests.simulation.workload import Fields, request
from tests.simulation.world import World

from warrener_contracts import topology
from warrener_contracts.events import AttemptDispatched, AttemptLost, AttemptStartTimedOut, Event
from warrener_contracts.messages import Message
from warrener_contracts.policy import Backoff, PolicyOverrides
from warrener_contracts.registry import type_of
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import Binding, Queue, Topology
from warrener_runtime.bus.memory import MemoryBus
from warrener_runtime.bus.types import Delivery
from warrener_runtime.lifecycle.listener import Listener
from warrener_store.incidents.rows import REFUSING_QUEUE

QUEUE = topology.dispatch_queue("default").name
NOTICED = 30.0
"""Seconds within which a dispatch that is gone must be in its queue again."""


class Audit:
    """Copies of every dispatch and every status event, in queues of its own."""

    def __init__(self, world: World) -> None:
        self._world = world

    @classmethod
    async def of(cls, world: World) -> Self:
        copied = (topology.DISPATCH, topology.STATUS)
        await declare(world, *(Queue(f"audit.{of}", (Binding(of, "#"),)) for of in copied))
        return cls(world)

    def dispatches(self) -> Counter[UUID]:
        events = self._events(topology.DISPATCH)
        return Counter(event.data.job_id for event in events if isinstance(event, AttemptDispatched))

    def findings(self) -> Counter[tuple[UUID, str]]:
        """How often supervisors found each job lost, or waiting for too long."""
        return Counter(
            (event.data.job_id, event.type)
            for event in self._events(topology.STATUS)
            if isinstance(event, AttemptLost | AttemptStartTimedOut)
        )

    def _events(self, exchange: str) -> list[Event[Any]]:
        return events_in(self._world.broker.peek(f"audit.{exchange}"))


async def declare(world: World, *queues: Queue) -> MemoryBus:
    bus = MemoryBus(world.broker, name="operator")
    await bus.start()
    await bus.declare(Topology((), queues))
    return bus


async def request_jobs(
    world: World, jobs: int, kind: str, fields: Fields = MappingProxyType({}), **arguments: Any
) -> list[UUID]:
    requests = [request(world, kind, fields, **arguments) for _ in range(jobs)]
    await world.publish(*(message for _, message in requests))
    return [job_id for job_id, _ in requests]


def settled(world: World, jobs: list[UUID]) -> bool:
    return world.settled() and set(jobs) <= world.store.jobs.keys()


def published_since(world: World, moment: datetime) -> bool:
    """Whether every job that is queued was published after that."""
    queued = [row for row in world.store.jobs.values() if row.state is JobState.QUEUED]
    return all(row.dispatched_at is not None and row.dispatched_at > moment for row in queued)


async def test_1_jobs_that_wait_longer_than_their_start_timeout_are_not_dispatched_again() -> None:
    async with World(1) as world:
        audit = await Audit.of(world)
        policy = {"policy": PolicyOverrides(start_timeout=timedelta(seconds=5))}
        jobs = await request_jobs(world, 400, "slow", policy, seconds=20.0)
        await world.clock.run_until(lambda: settled(world, jobs), within=4000)
        await check(world, jobs)
        assert {row.state for row in world.store.jobs.values()} == {JobState.SUCCEEDED}
        messages = sum(audit.dispatches().values())
        assert messages == len(jobs), f"{messages} dispatches for {len(jobs)} jobs"
        assert world.workshop.runs == Counter(jobs), "each is started once"
        assert {row.attempt for row in world.store.jobs.values()} == {1}
        named = audit.findings()
        assert {kind for _, kind in named} == {type_of(AttemptStartTimedOut)}
        assert set(named.values()) == {1}, "named once each"
        assert len(named) > 300


async def test_1_a_purge_is_noticed_beside_stale_messages_in_the_delay_queues() -> None:
    """150 retries of cancelled jobs of another queue wait for a quarter of an hour."""
    async with World(1, agents=1) as world:
        _, stale = request(world, "slow")
        delayed = stale._replace(exchange=topology.DELAY, routing_key="15m.other.slow", mandatory=False)
        await world.publish(*(delayed._replace(message_id=f"stale-{n}") for n in range(150)))
        jobs = await request_jobs(world, 100, "slow", seconds=5.0)
        await world.clock.run_until(lambda: set(jobs) <= world.store.jobs.keys(), within=30)
        world.broker.purge(QUEUE)
        await world.clock.run_until(lambda: not world.store.live, within=400)
        rows = world.store.jobs
        assert {rows[job_id].state for job_id in jobs} == {JobState.SUCCEEDED}
        assert {rows[job_id].attempt for job_id in jobs} == {1}


async def test_1_failing_jobs_end_after_one_start_each_however_long_they_wait() -> None:
    async with World(2, schedulers=1, supervisors=2, agents=1) as world:
        policy = {"policy": PolicyOverrides(start_timeout=timedelta(seconds=5), max_attempts=1)}
        jobs = await request_jobs(world, 100, "fails", policy, seconds=3.0)
        await world.clock.run_until(lambda: settled(world, jobs), within=600)
        assert {row.state for row in world.store.jobs.values()} == {JobState.DEAD}
        assert world.workshop.runs == Counter(jobs), "nothing runs uncharged"
        assert {row.failures for row in world.store.jobs.values()} == {1}


@pytest.mark.parametrize("deleted", [False, True], ids=["purged", "deleted"])
async def test_1_what_a_purged_or_deleted_queue_held_is_in_it_again_in_time(*, deleted: bool) -> None:
    async with World(4 if deleted else 3) as world:
        jobs = await request_jobs(world, 60, "slow", seconds=45.0)
        await world.clock.advance(4)
        waiting = world.broker.ready(QUEUE)
        assert waiting == 52, "all but those that run"
        gone_at = world.clock.now()
        (world.broker.delete_queue if deleted else world.broker.purge)(QUEUE)
        await world.clock.run_until(lambda: published_since(world, gone_at), within=NOTICED)
        if not deleted:
            assert world.broker.ready(QUEUE) == waiting
        await world.clock.run_until(lambda: settled(world, jobs), within=1200)
        await check(world, jobs)
        if not deleted:
            assert world.workshop.runs == Counter(jobs), "each is started once"
        assert {row.attempt for row in world.store.jobs.values()} == {1}


@pytest.mark.parametrize("retries", [0, 12], ids=["idle", "while retries of others pass by"])
async def test_1_a_few_that_agents_should_have_begun_are_found_too(retries: int) -> None:
    """Fewer than there are slots: counting alone cannot tell them from what agents are about to begin."""
    async with World(5 + retries) as world:
        world.broker.mute(QUEUE)
        jobs = await request_jobs(world, 3, "quick", number=1)
        await world.clock.advance(2)
        world.broker.purge(QUEUE)
        world.broker.mute(QUEUE, muted=False)
        often = Backoff(first=timedelta(seconds=1), limit=timedelta(seconds=1))
        retry = {"policy": PolicyOverrides(max_attempts=200, backoff=often)}
        others = await request_jobs(world, retries, "flaky", retry, failures=150)
        await world.clock.run_until(lambda: over(world, jobs), within=NOTICED)
        assert {world.workshop.runs[job] for job in jobs} == {1}
        if others:
            assert not over(world, others), "they still fail"
        else:
            await world.clock.run_until(world.settled, within=NOTICED)
            await check(world, jobs)


async def test_1_what_is_purged_while_the_last_purge_is_mended_is_found_in_time_too() -> None:
    async with World(3, supervisors=1) as world:
        jobs = await request_jobs(world, 28, "slow", seconds=90.0)
        await world.clock.run_until(lambda: world.broker.ready(QUEUE) == 20, within=NOTICED)
        for _ in range(3):
            published = partial(published_since, world, world.clock.now())
            world.broker.purge(QUEUE)
            await world.clock.advance(2)
            jobs += await request_jobs(world, 8, "slow", seconds=90.0)
            await world.clock.run_until(published, within=NOTICED)
        await world.clock.run_until(lambda: settled(world, jobs), within=1200)
        await check(world, jobs)
        assert world.workshop.runs == Counter(jobs), "each is started once"


async def test_1_a_retry_whose_wake_up_waits_in_its_queue_is_not_dispatched_again() -> None:
    async with World(6, agents=1) as world:
        audit = await Audit.of(world)
        flaky = await request_jobs(world, 4, "flaky", failures=1)
        await world.clock.advance(0.5)
        slow = await request_jobs(world, 60, "slow", seconds=40.0)
        await world.clock.run_until(lambda: settled(world, [*flaky, *slow]), within=2000)
        await check(world, [*flaky, *slow])
        messages = audit.dispatches()
        assert sum(messages[job] for job in slow) == len(slow)
        assert sum(messages[job] for job in flaky) <= 2 * len(flaky), "one for each attempt"


async def test_11_what_is_found_while_nobody_reads_is_published_once_by_each_supervisor() -> None:
    """The watchdog and the loss detector look every second, and their findings stand in the queue."""
    async with World(11, supervisors=2, rests=(100.0,)) as world:
        audit = await Audit.of(world)
        policy = {"policy": PolicyOverrides(start_timeout=timedelta(seconds=5))}
        jobs = await request_jobs(world, 30, "slow", policy, seconds=20.0)
        await world.clock.advance(4)
        running = [job for job in jobs if world.store.jobs[job].state is JobState.RUNNING]
        assert len(running) == 8
        world.broker.mute(topology.STATUS_QUEUE.name)
        for process in world.processes:
            if process.name.startswith("agent"):
                process.life.dead.set()
        await world.clock.advance(90)
        found = audit.findings()
        assert {job for job, _ in found} == set(jobs), "the lost and the waiting"
        assert max(found.values()) <= 2

        world.broker.mute(topology.STATUS_QUEUE.name, muted=False)
        await world.clock.run_until(lambda: settled(world, jobs), within=600)
        assert {job for job, row in world.store.jobs.items() if row.losses} == set(running)
        assert {row.losses for row in world.store.jobs.values()} == {0, 1}


FULL = "full"
IN_FULL: Fields = {"queue": FULL}
ROOM = 5


async def test_2_a_full_queue_holds_up_only_its_own_jobs() -> None:
    """No agent serves the full queue; once it is emptied and one does, its jobs all run once."""
    async with World(7) as world:
        await declare_small(world)
        full = await request_jobs(world, 40, "quick", IN_FULL, number=1)
        other = await request_jobs(world, 60, "quick", number=1)
        await world.clock.run_until(lambda: over(world, other), within=10)
        later = [
            *await request_jobs(world, 40, "quick", IN_FULL, number=1),
            *await request_jobs(world, 60, "flaky", failures=1),
        ]
        await world.clock.run_until(lambda: over(world, later[40:]), within=30)
        assert world.broker.ready(topology.REQUESTS_QUEUE.name) == 0, "its requests are acknowledged"
        await world.clock.advance(60)
        incidents = {incident.kind: incident for incident in await world.store.escalations.incidents()}
        assert incidents[REFUSING_QUEUE].subject == FULL, "an incident names it"
        waiting = [row for row in world.store.jobs.values() if row.queue == FULL]
        assert len(waiting) == 80
        assert {row.attempt for row in waiting} == {1}
        await drain(world)
        await world.clock.run_until(lambda: over(world, [*full, *later]), within=300)
        assert {world.workshop.runs[job] for job in [*full, *later[:40]]} == {1}, "each ran once"
        await world.clock.advance(60)
        await check(world, [*full, *other, *later])


async def test_2_an_ill_queue_holds_up_only_its_own_jobs() -> None:
    """It confirms nothing, as a queue without a quorum."""
    async with World(8) as world:
        await declare_small(world)
        world.broker.lose_quorum(topology.dispatch_queue(FULL).name)
        ill = await request_jobs(world, 20, "quick", IN_FULL, number=1)
        other = await request_jobs(world, 60, "quick", number=1)
        await world.clock.run_until(lambda: over(world, other), within=60)
        world.broker.lose_quorum(topology.dispatch_queue(FULL).name, lost=False)
        await drain(world)
        await world.clock.run_until(lambda: over(world, ill), within=300)
        assert {world.workshop.runs[job] for job in ill} == {1}


async def test_2_requesters_of_a_full_queue_are_notified_once_with_the_reason() -> None:
    async with World(9) as world:
        await declare_small(world)
        bindings = (
            Binding(topology.EVENTS, topology.reply_key("shop")),
            Binding(topology.EVENTS, "job.waiting.#"),
        )
        await declare(world, *(Queue(f"story.{n}", (binding,)) for n, binding in enumerate(bindings)))
        answered = {**IN_FULL, "reply_to": "shop"}
        full = await request_jobs(world, 620, "quick", answered, number=1)
        other = await request_jobs(world, 10, "quick", number=1)
        await world.clock.run_until(lambda: over(world, other), within=30)
        assert not notices(world, 0), "not before the queue has refused for some time"
        refused_by = world.clock.now() + timedelta(seconds=10)
        await world.clock.advance(60)
        await request_jobs(world, 20, "quick", answered, number=1)
        await world.clock.advance(120)
        waiting = {row.job_id for row in world.store.jobs.values() if row.dispatched_at is None}
        assert len(waiting) >= 620, f"{len(waiting)} wait in the store"
        found = notices(world, 0)
        times = Counter(event["data"]["job_id"] for event in found)
        assert {UUID(job) for job in times} >= waiting, f"{len(times)} of {len(waiting)}"
        assert set(times.values()) == {1}, "once each"
        assert Counter(event["data"]["job_id"] for event in notices(world, 1)) == times, "as are subscribers"
        data = found[0]["data"]
        assert data["queue"] == FULL
        assert f"{FULL} takes no messages since" in data["reason"]
        assert datetime.fromisoformat(data["since"]) <= refused_by
        await drain(world)
        await world.clock.run_until(lambda: over(world, full), within=600)
        assert {world.workshop.runs[job] for job in full} == {1}, "each ran once"


def notices(world: World, queue: int) -> list[dict[str, Any]]:
    """What has come to a queue of the story about jobs that wait."""
    events: list[dict[str, Any]] = []
    for message in world.broker.peek(f"story.{queue}"):
        body = json.loads(message.body)
        events += body if isinstance(body, list) else [body]
    return [event for event in events if event["type"] == "job.waiting.v1"]


async def declare_small(world: World) -> None:
    """The dispatch queue FULL, with little room."""
    usual = topology.dispatch_queue(FULL)
    await declare(world, replace(usual, arguments={**usual.arguments, "x-max-length": ROOM}))


async def drain(world: World) -> None:
    """An operator moves what is in the full queue, and what comes, to the queue that agents serve."""
    bus = await declare(world)

    async def move(delivery: Delivery) -> None:
        key = f"default.{delivery.routing_key.partition('.')[2]}"
        kind, message_id = delivery.content_type or "", delivery.message_id or ""
        moved = Message(topology.DISPATCH, key, delivery.body, kind, message_id, delivery.type or "", {})
        await bus.publish([moved])

    await Listener(bus, topology.dispatch_queue(FULL).name, move, world.clock).start()


def over(world: World, jobs: list[UUID]) -> bool:
    rows = world.store.jobs
    return all(job in rows and rows[job].state.terminal for job in jobs)
