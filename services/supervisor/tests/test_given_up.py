"""A dispatch that the broker gives up after twenty returns is no lost attempt."""

from collections.abc import AsyncIterator

import pytest
from services.supervisor.tests.event_factory import JOB, NOW, make
from services.supervisor.tests.harness import SupervisorHarness

from warrener_contracts import topology
from warrener_contracts.events import AgentHeartbeat, AgentHeartbeatData, AttemptDispatched
from warrener_contracts.messages import BATCH_TYPE, build_message
from warrener_contracts.states import JobState
from warrener_store.rows import JobRow
from warrener_supervisor.settings import SupervisorSettings

QUEUE = topology.dispatch_queue("default")
LIMIT = 20


@pytest.fixture
async def harness() -> AsyncIterator[SupervisorHarness]:
    one = SupervisorHarness()
    yield one
    await one.close()


async def open_with(harness: SupervisorHarness, row: JobRow) -> None:
    await harness.open(row)
    await harness.bus.declare(topology.Topology((), (QUEUE,)))
    data = row.dispatched_data()
    await harness.publish(AttemptDispatched(id=f"{JOB}:1", source="test", data=data))


async def give_up(harness: SupervisorHarness) -> None:
    """Return the message until the broker gives it up, as a connection does that breaks again and again."""
    subscription = await harness.bus.subscribe(QUEUE.name, prefetch=1)
    returns = 0
    async for batch in subscription:
        await subscription.reject(batch, requeue=True)
        returns += 1
        if returns > LIMIT:
            break
    await subscription.close()
    await harness.clock.advance(1)


async def row_of(harness: SupervisorHarness) -> JobRow:
    return (await harness.store.jobs_by_id([JOB]))[JOB]


async def test_4_an_attempt_that_was_returned_too_often_waits_on_uncharged(
    harness: SupervisorHarness,
) -> None:
    before = make(JobState.QUEUED)
    await open_with(harness, before)
    await give_up(harness)
    row = await row_of(harness)
    assert (row.state, row.attempt, row.losses, row.error) == (JobState.QUEUED, 1, 0, None)
    assert harness.broker.ready(QUEUE.name) == 0
    await harness.clock.advance(5)
    assert harness.broker.ready(QUEUE.name) == 1, "it is in its queue again, a while later"
    assert not await harness.store.parked()


async def test_4_one_that_never_starts_however_often_it_is_given_out_is_lost_in_the_end(
    harness: SupervisorHarness,
) -> None:
    await open_with(harness, make(JobState.QUEUED))
    for pause in (5, 15, 60):
        await give_up(harness)
        assert (await row_of(harness)).losses == 0
        await harness.clock.advance(pause)
        assert harness.broker.ready(QUEUE.name) == 1
    await give_up(harness)
    row = await row_of(harness)
    assert (row.attempt, row.losses) == (2, 1), "it may end each agent that reads it"


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.SUCCEEDED])
async def test_4_what_runs_or_is_over_does_not_need_the_message(
    harness: SupervisorHarness, state: JobState
) -> None:
    row = make(state)
    await open_with(harness, row)
    await give_up(harness)
    await harness.clock.advance(5)
    assert harness.broker.ready(QUEUE.name) == 0
    after = await row_of(harness)
    assert (after.state, after.attempt, after.losses) == (state, 1, 0)


async def test_5_heartbeats_beyond_the_batch_limit_are_parked_as_one_message() -> None:
    harness = SupervisorHarness(settings=SupervisorSettings(batch_limit=2))
    await harness.open()
    beats = [
        AgentHeartbeat(
            id=f"b{number}",
            source="test",
            time=NOW,
            data=AgentHeartbeatData(
                agent_id=f"agent-{number}",
                host="h",
                pid=1,
                queues=("default",),
                slots=1,
                running=(),
                started_at=NOW,
            ),
        )
        for number in range(3)
    ]
    bodies = b",".join(build_message(beat).body for beat in beats)
    together = build_message(beats[0])._replace(body=b"[" + bodies + b"]", content_type=BATCH_TYPE)
    await harness.publish(together, then=1)
    assert not await harness.store.agents()
    (message,) = await harness.store.parked()
    assert "at most 2 events" in message.detail
    await harness.close()
