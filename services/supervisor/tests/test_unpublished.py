"""Dispatches that the broker does not have are published."""

from services.supervisor.tests.event_factory import FRESH, make
from services.supervisor.tests.harness import SupervisorHarness

from warrener_contracts.events import (
    AttemptDispatched,
)
from warrener_contracts.state_machine import JobState


async def test_1_what_was_not_published_is_dispatched_under_its_number() -> None:
    harness = SupervisorHarness()
    await harness.open(make(JobState.QUEUED, dispatched_at=None, wake_at=FRESH))
    await harness.clock.advance(2)
    (dispatch,) = harness.dispatched()
    assert isinstance(dispatch, AttemptDispatched)
    assert dispatch.data.attempt == 1
    row = await harness.row()
    assert (row.failures, row.dispatched_at is None) == (0, False)
    await harness.close()
