"""Fixtures of the supervisor's tests."""

from collections.abc import AsyncIterator

import pytest
from services.supervisor.tests.stage import SupervisorHarness, opened, running_row


@pytest.fixture
async def harness() -> AsyncIterator[SupervisorHarness]:
    """A supervisor that watches one running job."""
    async with opened(running_row()) as one:
        yield one
