"""A refused or failed report delays only itself, and does not keep the agent from ending."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from services.agent.tests.stage import WAIT, HandlerRig, Stage

from warrener_agent import Agent, JobContext
from warrener_contracts import topology
from warrener_contracts.events import AgentHeartbeat, AttemptSucceeded, JobRequested, JobRequestedData
from warrener_contracts.messages import Message, build_message
from warrener_contracts.topology import Binding, Queue, Topology, dispatch_queue
from warrener_runtime.bus import PublishResult
from warrener_runtime.bus.memory import MemoryBus
from warrener_runtime.health import HealthRegistry, current_health_registry
from warrener_runtime.lifecycle import NotReady

if TYPE_CHECKING:
    from services.agent.tests.conftest import Connection


@pytest.fixture
def vitals() -> Iterator[HealthRegistry]:
    one = HealthRegistry()
    token = current_health_registry.set(one)
    yield one
    current_health_registry.reset(token)


def family() -> Agent:
    agent = Agent()

    @agent.job("parent")
    async def parent(job: JobContext) -> str:
        job.request("child", {}, key="child")
        return "has a child"

    @agent.job("other")
    async def other() -> str:
        return "not held up"

    return agent


async def fill(stage: Stage, exchange: str, key: str) -> MemoryBus:
    """A full queue that is bound for this key; its own bus may empty it."""
    bus = MemoryBus(stage.broker)
    await bus.start()
    arguments: dict[str, str | int] = {"x-max-length": 1, "x-overflow": "reject-publish"}
    await bus.declare(Topology((), (Queue("full", (Binding(exchange, key),), arguments),)))
    event = JobRequested(id=str(uuid4()), source="test", data=JobRequestedData(job_type="child"))
    message = build_message(event)._replace(exchange=exchange, routing_key=key)
    while (await bus.publish([message]))[0] is PublishResult.CONFIRMED:
        pass
    return bus


async def empty(bus: MemoryBus) -> None:
    subscription = await bus.subscribe("full", prefetch=10)
    await subscription.ack(await anext(aiter(subscription)))


async def test_3_an_outcome_that_is_refused_holds_up_neither_the_others_nor_the_end(
    stage: Stage, vitals: HealthRegistry
) -> None:
    room = await fill(stage, topology.REQUESTS, "child")
    first = await stage.enter(family(), agent_slots=2, shutdown_timeout=3600.0)
    await stage.succeed("parent")
    for _ in range(5):
        assert (await stage.succeed("other")).result == "not held up"
    async with asyncio.timeout(WAIT):  # of a shutdown_timeout of an hour
        await first.drain()
    with pytest.raises(NotReady, match=r"warrener\.requests:child takes none"):
        await vitals.checks["outbox"]()
    await stage.leave(first)
    assert "outbox" not in vitals.checks
    assert stage.broker.ready(dispatch_queue("default").name) == 1, "its delivery is in the queue again"
    await empty(room)
    requests_before = len(stage.of(JobRequested))
    await stage.enter(family())
    await stage.until(lambda: len(stage.of(JobRequested)) > requests_before, "the child's request")
    await stage.until(lambda: stage.broker.ready(dispatch_queue("default").name) == 0)
    await room.close()


async def test_3_what_was_refused_is_published_once_there_is_room(stage: Stage) -> None:
    room = await fill(stage, topology.REQUESTS, "child")
    one = await stage.enter(family(), shutdown_timeout=3600.0)
    held = (await stage.succeed("parent")).job_id
    await empty(room)
    beats = len(stage.of(AgentHeartbeat))
    await stage.until(lambda: any(not beat.data.running for beat in stage.of(AgentHeartbeat)[beats + 1 :]))
    async with asyncio.timeout(WAIT):
        await stage.drain(one)
    assert len(stage.of(AttemptSucceeded, held)) == 1, "nothing that the broker had is published again"
    await room.close()


async def test_3_a_message_that_cannot_be_parked_holds_up_no_attempt(stage: Stage) -> None:
    queue = dispatch_queue("default").name
    room = await fill(stage, topology.DEAD, f"parked.{queue}")
    one = await stage.enter(family())
    bad = Message(topology.DISPATCH, "default.x", b"{", "application/cloudevents+json", "bad", "x", {})
    assert await stage.bus.publish([bad]) == [PublishResult.CONFIRMED]
    for _ in range(5):
        assert (await stage.succeed("other")).result == "not held up"
    await stage.leave(one)
    assert stage.broker.ready(queue) == 1, "the message that is to be parked is not lost"
    await room.close()


async def test_3_what_the_broker_returns_is_declared_and_published_again(stage: Stage) -> None:
    one = await stage.enter(family())
    stage.broker.delete_exchange(topology.REQUESTS)
    held = await stage.dispatch("parent")
    await stage.until(
        lambda: "child" in [request.data.job_type for request in stage.of(JobRequested)],
        "the child's request",
    )
    assert len(stage.of(AttemptSucceeded, held)) == 1
    await stage.leave(one)
    assert stage.broker.ready(dispatch_queue("default").name) == 0, "it was acknowledged"


async def test_g1_an_outcome_that_met_an_unexpected_error_is_reported_when_the_error_is_gone(
    stage: Stage, rig: HandlerRig, postgres_url: str, connection: "Connection"
) -> None:
    stage.ledger_url = postgres_url
    await stage.enter(rig.agent)
    job = await stage.dispatch("wait")
    await rig.begun.get()
    refuse = f"CHECK (job_id <> '{job}' OR finished_at IS NULL)"
    await connection.execute(f"ALTER TABLE warrener_ledger ADD CONSTRAINT refused {refuse}")
    rig.go_on.set()
    await stage.succeed("greet", {"name": "not held up"})
    assert not stage.of(AttemptSucceeded, job), "it cannot be recorded"
    await connection.execute("ALTER TABLE warrener_ledger DROP CONSTRAINT refused")
    assert (await stage.wait_for_event(AttemptSucceeded, job)).data.result == 1
