"""Dispatches that are missing from their queue are published again."""

from uuid import uuid4

from services.supervisor.tests.event_factory import JOB, NOW, heartbeat, make
from services.supervisor.tests.harness import opened

from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import DELAY, Topology, dispatch_queue
from warrener_supervisor.notifications import dispatch_message


async def test_7_an_agent_that_is_busy_in_another_queue_hides_no_dispatch_that_was_lost() -> None:
    """Slots are per queue; the cancelled retry that waits in a delay queue is of another one."""
    row = make(JobState.QUEUED)
    stale = dispatch_message(row, NOW)._replace(
        exchange=DELAY, routing_key="15m.other.slow", message_id="stale", mandatory=False
    )
    beat = heartbeat(*((uuid4(), 1) for _ in range(4)))
    data = beat.data.model_copy(
        update={"queues": ("default", "other"), "free_slots": {"default": 4, "other": 0}}
    )
    async with opened(row) as harness:
        await harness.bus.declare(Topology((), (dispatch_queue("default"),)))
        await harness.publish(stale)
        for number in range(60):
            await harness.publish(beat.model_copy(update={"id": str(number), "data": data}), then=4)
        assert [event.data.job_id for event in harness.dispatched()] == [JOB]
