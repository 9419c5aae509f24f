"""Fixtures of the scheduler's tests."""

from collections.abc import AsyncIterator

import pytest
from services.scheduler.tests.stage import Stage


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    one = Stage()
    await one.open()
    yield one
    await one.close()
