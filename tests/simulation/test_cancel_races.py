"""A cancel takes another way than the request of its job. It wins, whichever is carried out first, and both
requesters are answered."""

from typing import Literal

import pytest
from tests.simulation.workload import cancel_request, job_request
from tests.simulation.world import World

from warrener_contracts import topology
from warrener_contracts.events import JobFinished
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import Binding, Queue, Topology
from warrener_runtime.bus import Delivery
from warrener_runtime.lifecycle.listener import Listener

Order = Literal["long before", "just before", "just after", "while it is dispatched", "while it runs"]
QUEUES = {"requests": topology.REQUESTS_QUEUE.name, "commands": topology.SUPERVISOR_COMMANDS.name}
REPLIES = Queue("replies", (Binding(topology.EVENTS, "reply.#"),))


@pytest.mark.parametrize("held_up", ["nothing", "requests", "commands"])
@pytest.mark.parametrize(
    "order", ["long before", "just before", "just after", "while it is dispatched", "while it runs"]
)
async def test_a_cancel_wins_whenever_it_comes(order: Order, held_up: str) -> None:
    async with World(1, agents=1, rests=(1.0,)) as world:
        job_id = world.entropy.new_id()
        request = job_request(job_id, "slow", arguments={"seconds": 3000.0}, reply_to="requester")
        cancel = cancel_request(job_id, reason="wrong file", reply_to="canceller")
        replied = set[str]()

        async def record(delivery: Delivery) -> None:
            replied.add(delivery.routing_key)

        await world.producer.declare(Topology((), (REPLIES,)))
        await Listener(world.producer, REPLIES.name, record, world.clock).start()
        if held_up in QUEUES:
            world.broker.mute(QUEUES[held_up])
        match order:
            case "long before":
                await world.publish(cancel)
                await world.clock.advance(100)
                await world.publish(request)
            case "just before":
                await world.publish(cancel, request)
            case "just after":
                await world.publish(request, cancel)
            case "while it is dispatched" | "while it runs":
                await world.publish(request)
                await world.clock.advance(0.01 if order == "while it is dispatched" else 20)
                await world.publish(cancel)
        await world.clock.advance(5)
        if held_up in QUEUES:
            world.broker.mute(QUEUES[held_up], muted=False)
        await world.clock.run_until(lambda: job_id in world.store.jobs and world.settled(), within=400)
        await world.clock.advance(20)
        ended = world.clock.now()
        await world.clock.advance(100)

        assert world.store.jobs[job_id].state is JobState.CANCELLED
        assert world.store.jobs[job_id].cancel_reason == "wrong file"
        finished = [event for event in world.published if isinstance(event, JobFinished)]
        assert {event.data.state for event in finished} == {JobState.CANCELLED}
        assert replied == {topology.reply_key("requester"), topology.reply_key("canceller")}
        if held_up == "requests" or (order == "long before" and held_up == "nothing"):
            assert not world.workshop.runs[job_id], "it never began"
        assert world.store.jobs[job_id].updated_at <= ended, "and nothing revives it"
