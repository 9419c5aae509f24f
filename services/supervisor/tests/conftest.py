"""Fixtures of the supervisor's tests."""

from collections.abc import AsyncIterator

import pytest
from services.supervisor.tests.event_factory import MakeRow, make, running_row
from services.supervisor.tests.harness import SupervisorHarness


@pytest.fixture
def make_row() -> MakeRow:
    """Makes rows that the store would take."""
    return make


@pytest.fixture
async def harness() -> AsyncIterator[SupervisorHarness]:
    """A supervisor that watches one running job."""
    one = SupervisorHarness()
    await one.open(running_row())
    yield one
    await one.close()
