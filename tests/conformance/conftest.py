"""The implementations that the suites run on."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.conformance.bus_rigs import BURIED, EXCHANGES, JOBS, MemoryRig, RabbitRig, Rig
from tests.servers.kinds import RabbitMQServer
from tests.store_access import opened_store

from warrener_agent.ledger import connected_ledger
from warrener_agent.ledger.port import Ledger
from warrener_contracts.topology import Topology
from warrener_runtime.bus import Bus
from warrener_store import Store


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_store_url"))


@pytest.fixture
async def store(store_url: str) -> AsyncGenerator[Store]:
    """An empty store of each kind."""
    async with opened_store(store_url) as opened:
        yield opened


@pytest.fixture
async def closing() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture(params=["memory", "rabbitmq"])
def rig(request: pytest.FixtureRequest, closing: AsyncExitStack) -> Rig:
    if request.param == "memory":
        return MemoryRig(closing)
    node: RabbitMQServer = request.getfixturevalue("broker")
    return RabbitRig(closing, node, request.getfixturevalue("vhost_url"))


@pytest.fixture(params=["memory", "rabbitmq"])
def mortal_rig(request: pytest.FixtureRequest, closing: AsyncExitStack) -> Rig:
    """A broker of the test's own, that may be restarted."""
    if request.param == "memory":
        return MemoryRig(closing)
    node: RabbitMQServer = request.getfixturevalue("own_rabbitmq")
    return RabbitRig(closing, node, node.url)


@pytest.fixture
async def bus(rig: Rig) -> Bus:
    """A bus with the exchanges, a queue for work, and one for dead letters."""
    bus = await rig.bus()
    await bus.declare(Topology(EXCHANGES, (JOBS, BURIED)))
    return bus


@pytest.fixture(params=["sqlite", "postgres"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def ledger(ledger_url: str) -> AsyncIterator[Ledger]:
    """The ledger of agent `ada`."""
    async with connected_ledger(ledger_url) as one:
        yield one


@pytest.fixture
async def other(ledger_url: str, ledger: Ledger) -> AsyncIterator[Ledger]:
    """The same ledger, opened by another agent's process."""
    async with connected_ledger(ledger_url) as one:
        yield one
