"""Fixtures of the acceptance tests: a warren of real processes on a real broker."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.acceptance.fork_server import ForkServers
from tests.acceptance.store_queries import OPEN_STORES
from tests.acceptance.warren import Warren
from tests.servers.kinds import RabbitMQServer


@pytest.fixture(scope="session")
def forks() -> Iterator[ForkServers]:
    """The processes that services are forked from."""
    with ForkServers() as servers:
        yield servers


@pytest.fixture(autouse=True)
def stores_closed() -> Iterator[None]:
    """No store stays open after the test that has looked into it."""
    with OPEN_STORES:
        yield


@pytest.fixture
def warren(
    tmp_path: Path,
    vhost_url: str,
    sqlite_store_url: str,
    forks: ForkServers,
    request: pytest.FixtureRequest,
) -> Iterator[Warren]:
    """A broker of its own, an empty SQLite store and ledger, and no service yet."""
    one = Warren(tmp_path, vhost_url, sqlite_store_url, f"sqlite:///{tmp_path}/ledger.db", forks=forks)
    yield one
    one.end()
    if request.session.testsfailed:
        for service in one.services:
            print(f"--- {service.name}\n{service.log_text()[-3000:]}")


@pytest.fixture(scope="module")
def shared_warren(
    broker: RabbitMQServer,
    forks: ForkServers,
    sqlite_template: Path,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Warren]:
    """The same for all tests of a module, which start it themselves."""
    folder, vhost = tmp_path_factory.mktemp("warren"), f"test-{uuid4().hex[:12]}"
    store = f"sqlite:///{shutil.copy(sqlite_template, folder / 'state.db')}"
    one = Warren(folder, broker.add_vhost(vhost), store, f"sqlite:///{folder}/ledger.db", forks=forks)
    yield one
    one.end()
    broker.drop_vhost(vhost)
    if request.session.testsfailed:
        for service in one.services:
            print(f"--- {service.name}\n{service.log_text()[-3000:]}")
