"""Dispatches that the broker does not have are published again: refused, lost, purged."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from services.supervisor.tests import stage

from warrener_contracts import topology
from warrener_contracts.policy import JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import DELAY, Topology, dispatch_queue
from warrener_store.jobs.timeline import job_timeline
from warrener_store.jobs.views import QueuedGroup
from warrener_supervisor.decisions.missing_dispatches import (
    DelayedMessages,
    MissingDispatches,
    QueueSnapshot,
    find_missing,
    jobs_to_fill,
    messages_needed,
)
from warrener_supervisor.notifications import dispatch_message

LATER = stage.NOW + timedelta(seconds=5)


def job(number: int) -> UUID:
    return UUID(int=number)


def snapshot(
    waiting: range,
    ready: int,
    *,
    delayed: int = 0,
    slots: int = 0,
    every: int | None = None,
    late: bool = False,
) -> QueueSnapshot:
    oldest = {job(n): stage.NOW - timedelta(minutes=1) + timedelta(milliseconds=n) for n in waiting}
    settled = len(waiting)
    return QueueSnapshot(
        stage.NOW,
        settled,
        settled if every is None else every,
        ready,
        DelayedMessages(delayed),
        slots,
        oldest,
    )


def compared(before: QueueSnapshot, now: QueueSnapshot) -> MissingDispatches:
    return find_missing(before, now._replace(at=LATER))


def test_neither_a_backlog_nor_what_is_in_transit_is_a_loss_and_a_purge_is_certain() -> None:
    assert not compared(snapshot(range(400), 400), snapshot(range(8, 400), 392)).messages
    assert not compared(snapshot(range(10), 4, delayed=6), snapshot(range(10), 4, delayed=6)).messages
    others_each_time = compared(snapshot(range(20), 10, slots=8), snapshot(range(20, 40), 10, slots=8))
    assert not others_each_time.jobs
    gone = compared(snapshot(range(50), 0), snapshot(range(50), 0))
    assert gone == MissingDispatches(50, tuple(map(job, range(50))), beyond=True), "what follows too"
    gone = compared(snapshot(range(50), 10, slots=8), snapshot(range(50), 10, slots=8))
    assert gone.messages == 32, "free slots may be about to begin some"
    gone = compared(snapshot(range(3), 0, slots=8), snapshot(range(3), 0, slots=8))
    assert gone == MissingDispatches(3, tuple(map(job, range(3)))), "the queue stays empty"


def test_what_passes_by_the_shortest_delay_queue_hides_nothing_from_idle_agents() -> None:
    idle, busy = snapshot(range(3), 0, delayed=20, slots=8), snapshot(range(3), 0, delayed=20)
    assert compared(idle, idle) == MissingDispatches(3, tuple(map(job, range(3))))
    assert not compared(busy, busy).messages, "agents without free slots put messages there"
    retries = idle._replace(delayed=DelayedMessages(0, longer=20))
    assert not compared(retries, retries).messages


def test_what_is_overtaken_is_gone_where_a_message_is_missing() -> None:
    before = snapshot(range(100), 98, slots=8)
    after = snapshot(range(100), 78, slots=8)
    after = after._replace(
        settled=80, every=80, oldest={each: at for each, at in after.oldest.items() if not 2 <= each.int < 22}
    )
    assert compared(before, after) == MissingDispatches(2, (job(0), job(1)))
    accounted = after._replace(ready=80)
    assert not compared(before._replace(ready=100), accounted).messages, "sent to the back, and not lost"


def test_what_was_dispatched_since_was_not_there_before() -> None:
    again = {each: at + timedelta(minutes=1) for each, at in snapshot(range(3), 0).oldest.items()}
    assert compared(snapshot(range(3), 0), snapshot(range(3), 0)._replace(oldest=again)).jobs == ()


@pytest.mark.parametrize(("dispatch_batch", "jobs", "messages"), [(1, 5, 5), (16, 33, 3), (16, 32, 2)])
def test_jobs_that_share_messages_need_fewer(dispatch_batch: int, jobs: int, messages: int) -> None:
    group = QueuedGroup("t", JobPolicy(dispatch_batch=dispatch_batch), jobs, 0)
    assert messages_needed([group]) == (0, messages)
    assert messages_needed([group, group._replace(settled=1)]) == (1, 2 * messages)


def test_so_many_jobs_are_chosen_as_fill_the_messages() -> None:
    many = JobPolicy(dispatch_batch=4)
    rows = [stage.make(JobState.QUEUED, policy=many, attempt=1) for _ in range(10)]
    assert len(jobs_to_fill(2, rows)) == 8
    assert len(jobs_to_fill(2, [stage.make(JobState.QUEUED, policy=many, attempt=2) for _ in range(10)])) == 2
    assert len(jobs_to_fill(100, rows)) == 10


async def test_7_an_agent_that_is_busy_in_another_queue_hides_no_dispatch_that_was_lost() -> None:
    """Slots are per queue; the cancelled retry that waits in a delay queue is of another one."""
    row = stage.make(JobState.QUEUED)
    stale = dispatch_message(row, stage.NOW)._replace(
        exchange=DELAY, routing_key="15m.other.slow", message_id="stale", mandatory=False
    )
    beat = stage.heartbeat(*((uuid4(), 1) for _ in range(4)))
    data = beat.data.model_copy(
        update={"queues": ("default", "other"), "free_slots": {"default": 4, "other": 0}}
    )
    async with stage.opened(row) as harness:
        await harness.bus.declare(Topology((), (dispatch_queue("default"),)))
        await harness.publish(stale)
        for number in range(60):
            await harness.publish(beat.model_copy(update={"id": str(number), "data": data}), then=4)
        assert [event.data.job_id for event in harness.dispatched()] == [stage.JOB]


async def test_1_what_was_not_published_is_dispatched_under_its_number() -> None:
    async with stage.opened(stage.make(JobState.QUEUED, dispatched_at=None, wake_at=stage.FRESH)) as harness:
        await harness.clock.advance(2)
        assert [dispatch.data.attempt for dispatch in harness.dispatched()] == [1]
        row = await harness.row()
        assert (row.failures, row.dispatched_at is None) == (0, False)


@pytest.mark.parametrize("event", [stage.released(), stage.lost(), stage.failed(retry_after_seconds=0)])
async def test_a_retry_at_once_that_its_full_queue_refuses_waits_for_the_queue_and_no_breaker(
    event: Any,
) -> None:
    async with stage.opened(stage.running_row(traceparent=stage.TRACEPARENT)) as harness:
        queue = topology.dispatch_queue("default")
        await harness.bus.declare(
            Topology((), (replace(queue, arguments={**queue.arguments, "x-max-length": 0}),))
        )
        await harness.publish(event, then=2)
        row = await harness.row()
        timeline = job_timeline(row, await harness.store.attempts_of([stage.JOB]), harness.clock.now())
        assert (timeline[-1].cause.value, timeline[-1].end) == ("limit", None)
        assert (row.state, row.attempt, row.due_at, row.dispatched_at) == (JobState.QUEUED, 2, None, None)
        await harness.clock.advance(60)
        causes = {
            str((span.attributes or {})["warrener.wait.cause"])
            for span in harness.telemetry.spans()
            if span.name.startswith("wait")
        }
        assert "limit" in causes
        assert "breaker" not in causes
        assert (await harness.row()).updated_at > stage.NOW + timedelta(seconds=2), "it was tried again"
