"""Fixtures of the acceptance tests: a warren of real processes on a real broker."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.acceptance.fork_server import kill_forked
from tests.acceptance.store_queries import OPEN_STORES
from tests.acceptance.warren import Warren
from tests.faults.postgres_proxy import PostgresProxy
from tests.servers.kinds import PostgresServer, RabbitMQServer

NewWarren = Callable[[str], Warren]


@pytest.fixture(scope="session", autouse=True)
def forked_ended() -> Iterator[None]:
    """No forked service outlives the tests."""
    yield
    kill_forked()


@pytest.fixture(autouse=True)
def stores_closed() -> Iterator[None]:
    """No store stays open after the test that has looked into it."""
    with OPEN_STORES:
        yield


@pytest.fixture
def postgres_proxy(postgres: PostgresServer) -> Iterator[PostgresProxy]:
    """A proxy on the way to the session's PostgreSQL."""
    one = PostgresProxy(postgres.port)
    yield one
    one.close()


@pytest.fixture
def warren(
    tmp_path: Path, vhost_url: str, sqlite_store_url: str, request: pytest.FixtureRequest
) -> Iterator[Warren]:
    """A broker of its own, an empty SQLite store and ledger, and no service yet."""
    one = Warren(tmp_path, vhost_url, sqlite_store_url, f"sqlite:///{tmp_path}/ledger.db", forks=True)
    yield one
    _end(one, request)


@pytest.fixture(scope="module")
def new_warren(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[NewWarren]:
    """Makes warrens as above on the broker at a URL, for all tests of a module."""
    made: list[Warren] = []

    def make(broker_url: str) -> Warren:
        folder = tmp_path_factory.mktemp("warren")
        store = f"sqlite:///{shutil.copy(sqlite_template, folder / 'state.db')}"
        made.append(Warren(folder, broker_url, store, f"sqlite:///{folder}/ledger.db", forks=True))
        return made[-1]

    yield make
    for one in made:
        _end(one, request)


@pytest.fixture(scope="module")
def shared_warren(broker: RabbitMQServer, new_warren: NewWarren) -> Iterator[Warren]:
    """A warren for all tests of a module, which start it themselves."""
    vhost = f"test-{uuid4().hex[:12]}"
    one = new_warren(broker.add_vhost(vhost))
    yield one
    one.end()
    broker.drop_vhost(vhost)


def _end(warren: Warren, request: pytest.FixtureRequest) -> None:
    warren.end()
    if request.session.testsfailed:
        for service in warren.services:
            print(f"--- {service.name}\n{service.log_text()[-3000:]}")
