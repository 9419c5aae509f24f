"""Fixtures of the agent's tests."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from services.agent.tests.stage import FaultyBus, HandlerRig, Stage

from warrener_agent import Agent
from warrener_agent.__main__ import load_agents
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    broker = MemoryBroker()
    one = Stage(broker, MemoryBus(broker), f"sqlite:///{tmp_path}/ledger.db")
    await one.listen()
    yield one
    await one.close()


@pytest.fixture
def rig() -> HandlerRig:
    return HandlerRig()


@pytest.fixture
def faulty(stage: Stage) -> Callable[[str, str], FaultyBus]:
    """Makes connections that freeze around a message of a type, before it is told or after."""
    return lambda frozen_type, when: FaultyBus(stage.broker, frozen_type, when=when)


@pytest.fixture
def load_handlers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Agent]]:
    """Imports a module of handlers by its name, as an agent does."""
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parent), *sys.path])
    loaded: list[str] = []

    def load(module: str) -> Agent:
        loaded.append(module)
        return load_agents([module])

    yield load
    for module in loaded:
        del sys.modules[module]


@pytest.fixture
def agent(load_handlers: Callable[[str], Agent]) -> Iterator[Agent]:
    """Serves the handlers of `agent_handlers`."""
    yield load_handlers("agent_handlers")
    sys.modules["agent_handlers"].release.set()
