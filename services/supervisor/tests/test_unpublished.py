"""Dispatches that the broker does not have are published."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from services.supervisor.tests import event_factory
from services.supervisor.tests.event_factory import FRESH, JOB, NOW, TRACEPARENT, make, running_row
from services.supervisor.tests.harness import opened

from warrener_contracts import topology
from warrener_contracts.events import AttemptDispatched
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import Topology
from warrener_store.jobs.timeline import job_timeline


async def test_1_what_was_not_published_is_dispatched_under_its_number() -> None:
    async with opened(make(JobState.QUEUED, dispatched_at=None, wake_at=FRESH)) as harness:
        await harness.clock.advance(2)
        (dispatch,) = harness.dispatched()
        assert isinstance(dispatch, AttemptDispatched)
        assert dispatch.data.attempt == 1
        row = await harness.row()
        assert (row.failures, row.dispatched_at is None) == (0, False)


@pytest.mark.parametrize(
    "event", [event_factory.released(), event_factory.lost(), event_factory.failed(retry_after_seconds=0)]
)
async def test_a_retry_at_once_that_its_full_queue_refuses_waits_for_the_queue_and_no_breaker(
    event: Any,
) -> None:
    async with opened(running_row(traceparent=TRACEPARENT)) as harness:
        queue = topology.dispatch_queue("default")
        await harness.bus.declare(
            Topology((), (replace(queue, arguments={**queue.arguments, "x-max-length": 0}),))
        )
        await harness.publish(event, then=2)
        row = await harness.row()
        timeline = job_timeline(row, await harness.store.attempts_of([JOB]), harness.clock.now())
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
        assert (await harness.row()).updated_at > NOW + timedelta(seconds=2), "it was tried again"
