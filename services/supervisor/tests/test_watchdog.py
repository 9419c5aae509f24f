"""Time limits are reported and judged."""

from datetime import timedelta

import pytest
from services.supervisor.tests.event_factory import FRESH, JOB, NOW, make
from services.supervisor.tests.harness import opened

from warrener_contracts import topology
from warrener_contracts.events import JobDeadlinePassed
from warrener_contracts.state_machine import JobState


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

        def findings() -> int:
            return sum(isinstance(event, JobDeadlinePassed) for event in harness.published(topology.STATUS))

        await harness.clock.advance(590)
        assert findings() == 1
        await harness.clock.advance(60)
        assert findings() == 2


@pytest.mark.parametrize("is_lost", [False, True], ids=["its queue is read", "lost with its queue"])
async def test_a_finding_that_nobody_reads_is_repeated_only_if_it_was_lost(*, is_lost: bool) -> None:
    """The reports of a backlog wait before it: each repeat would make that longer."""
    late = make(JobState.WAITING, deadline_at=NOW + timedelta(seconds=3), wake_at=FRESH)
    async with opened(late) as harness:
        harness.broker.mute(topology.STATUS_QUEUE.name)
        await harness.clock.advance(60)
        found = [
            event for event in harness.published(topology.STATUS) if isinstance(event, JobDeadlinePassed)
        ]
        assert [event.data.job_id for event in found] == [JOB]
        if is_lost:
            harness.broker.purge(topology.STATUS_QUEUE.name)
        harness.broker.mute(topology.STATUS_QUEUE.name, muted=False)
        await harness.clock.advance(15 if is_lost else 1)
        assert (await harness.row()).state is JobState.EXPIRED
