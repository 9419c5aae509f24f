"""Fixtures of the agent's tests."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import pytest
from services.agent.tests.stage import HandlerRig, Stage

from warrener_agent import Agent
from warrener_agent.__main__ import load_agents
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]  # generic in the stubs alone


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    broker = MemoryBroker()
    one = Stage(broker, MemoryBus(broker), f"sqlite:///{tmp_path}/ledger.db")
    await one.listen()
    yield one
    await one.close()


@pytest.fixture
async def connection(postgres_url: str) -> "AsyncIterator[Connection]":
    one = await asyncpg.connect(postgres_url)
    yield one
    await one.close()


@pytest.fixture
def rig() -> HandlerRig:
    return HandlerRig()


@pytest.fixture
def load_handlers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Agent]]:
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
    yield load_handlers("agent_handlers")
    sys.modules["agent_handlers"].release.set()
