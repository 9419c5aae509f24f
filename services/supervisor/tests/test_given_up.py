"""A dispatch that the broker gives up after twenty returns is no lost attempt."""

from collections.abc import AsyncIterator

import pytest
from services.supervisor.tests.stage import Stage
from services.supervisor.tests.words import JOB, NOW, make

from warrener_contracts import topology
from warrener_contracts.events import AgentHeartbeat, AgentHeartbeatData, AttemptDispatched
from warrener_contracts.messages import BATCH_TYPE, build_message
from warrener_contracts.states import JobState
from warrener_store.rows import JobRow
from warrener_supervisor.settings import SupervisorSettings

QUEUE = topology.dispatch_queue("default")
LIMIT = 20


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    one = Stage()
    yield one
    await one.close()


async def open_with(stage: Stage, row: JobRow) -> None:
    await stage.open(row)
    await stage.bus.declare(topology.Topology((), (QUEUE,)))
    data = row.dispatched_data()
    await stage.say(AttemptDispatched(id=f"{JOB}:1", source="test", data=data))


async def give_up(stage: Stage) -> None:
    """Return the message until the broker gives it up, as a connection does that breaks again and again."""
    subscription = await stage.bus.subscribe(QUEUE.name, prefetch=1)
    returns = 0
    async for batch in subscription:
        await subscription.reject(batch, requeue=True)
        returns += 1
        if returns > LIMIT:
            break
    await subscription.close()
    await stage.clock.advance(1)


async def row_of(stage: Stage) -> JobRow:
    return (await stage.store.jobs_by_id([JOB]))[JOB]


async def test_4_an_attempt_that_was_returned_too_often_waits_on_uncharged(stage: Stage) -> None:
    before = make(JobState.QUEUED)
    await open_with(stage, before)
    await give_up(stage)
    row = await row_of(stage)
    assert (row.state, row.attempt, row.losses, row.error) == (JobState.QUEUED, 1, 0, None)
    assert stage.broker.ready(QUEUE.name) == 0
    await stage.clock.advance(5)
    assert stage.broker.ready(QUEUE.name) == 1, "it is in its queue again, a while later"
    assert not await stage.store.parked()


async def test_4_one_that_never_starts_however_often_it_is_given_out_is_lost_in_the_end(stage: Stage) -> None:
    await open_with(stage, make(JobState.QUEUED))
    for pause in (5, 15, 60):
        await give_up(stage)
        assert (await row_of(stage)).losses == 0
        await stage.clock.advance(pause)
        assert stage.broker.ready(QUEUE.name) == 1
    await give_up(stage)
    row = await row_of(stage)
    assert (row.attempt, row.losses) == (2, 1), "it may end each agent that reads it"


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.SUCCEEDED])
async def test_4_what_runs_or_is_over_does_not_need_the_message(stage: Stage, state: JobState) -> None:
    row = make(state)
    await open_with(stage, row)
    await give_up(stage)
    await stage.clock.advance(5)
    assert stage.broker.ready(QUEUE.name) == 0
    after = await row_of(stage)
    assert (after.state, after.attempt, after.losses) == (state, 1, 0)


async def test_5_heartbeats_beyond_the_batch_limit_are_parked_as_one_message() -> None:
    stage = Stage(settings=SupervisorSettings(batch_limit=2))
    await stage.open()
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
    await stage.say(together, then=1)
    assert not await stage.store.agents()
    (message,) = await stage.store.parked()
    assert "at most 2 events" in message.detail
    await stage.close()
