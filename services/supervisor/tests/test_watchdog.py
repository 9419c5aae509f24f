"""Time limits are reported and judged."""

from datetime import timedelta

import pytest
from services.supervisor.tests.stage import FRESH, JOB, NOW, SupervisorHarness, heartbeat, make, opened

from warrener_contracts import topology
from warrener_contracts.events import AttemptCancel, JobDeadlinePassed
from warrener_contracts.state_machine import JobState


async def test_an_attempt_that_runs_too_long_is_timed_out_and_its_agent_notified(
    harness: SupervisorHarness,
) -> None:
    timeout = (await harness.row()).policy.timeout.total_seconds()
    for number in range(int(timeout / 5) + 4):
        await harness.publish(heartbeat((JOB, 1), number=number), then=5)
    published = harness.all_of(AttemptCancel)
    assert {event.data.attempt for event in published} == {1}
    assert len(published) > 1, "told again and again"
    row = await harness.row()
    assert (row.state, row.attempt) == (JobState.RUNNING, 1), "its agent names it: it is not dead yet"
    await harness.publish(heartbeat(number=-1), then=30)
    row = await harness.row()
    assert (row.attempt, row.failures, row.losses) == (2, 1, 0), "not listed any longer: charged as a timeout"


async def test_a_deadline_ends_a_job_wherever_it_is() -> None:
    async with opened(
        make(JobState.WAITING, deadline_at=NOW + timedelta(seconds=3), wake_at=FRESH)
    ) as harness:
        await harness.clock.advance(5)
        assert (await harness.row()).state is JobState.EXPIRED
        assert "job.finished.expired.flights.load" in harness.addresses(topology.EVENTS)


async def test_a_finding_is_repeated_after_ten_minutes_though_its_queue_is_never_empty() -> None:
    """It may have been purged beside messages that arrive without end."""
    late = make(JobState.WAITING, deadline_at=NOW + timedelta(seconds=3), wake_at=FRESH)
    async with opened(late) as harness:
        harness.broker.mute(topology.STATUS_QUEUE.name)
        for seconds, findings in ((590, 1), (60, 2)):
            await harness.clock.advance(seconds)
            assert len(harness.all_of(JobDeadlinePassed)) == findings


@pytest.mark.parametrize("is_lost", [False, True], ids=["its queue is read", "lost with its queue"])
async def test_a_finding_that_nobody_reads_is_repeated_only_if_it_was_lost(*, is_lost: bool) -> None:
    """The reports of a backlog wait before it: each repeat would make that longer."""
    late = make(JobState.WAITING, deadline_at=NOW + timedelta(seconds=3), wake_at=FRESH)
    async with opened(late) as harness:
        harness.broker.mute(topology.STATUS_QUEUE.name)
        await harness.clock.advance(60)
        assert [event.data.job_id for event in harness.all_of(JobDeadlinePassed)] == [JOB]
        if is_lost:
            harness.broker.purge(topology.STATUS_QUEUE.name)
        harness.broker.mute(topology.STATUS_QUEUE.name, muted=False)
        await harness.clock.advance(15 if is_lost else 1)
        assert (await harness.row()).state is JobState.EXPIRED
