"""Fixtures of the agent's tests."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from services.agent.tests.stage import FaultyBus, HandlerRig, Stage

from warrener_runtime.bus.memory import MemoryBroker, MemoryBus


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """An empty stage."""
    broker = MemoryBroker()
    one = Stage(broker, MemoryBus(broker), f"sqlite:///{tmp_path}/ledger.db")
    await one.listen()
    yield one
    await one.close()


@pytest.fixture
def rig() -> HandlerRig:
    """Handlers that the test holds in its hands."""
    return HandlerRig()


@pytest.fixture
def faulty(stage: Stage) -> Callable[[str, str], FaultyBus]:
    """Makes connections that freeze around a message of a type, before it is told or after."""
    return lambda frozen_type, when: FaultyBus(stage.broker, frozen_type, when=when)
