"""The servers that tests run on: private processes of this test run, gone with it.

`broker` and `postgres` live as long as the session; `vhost_url` and `postgres_url` give each test a fresh
place of its own in them. A test that kills its broker takes `own_rabbitmq`.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from warrener_runtime.servers import PrivatePostgres, PrivateRabbitMQ, ServerMissing


@pytest.fixture(scope="session")
def server_folders() -> Iterator[Callable[[str], Path]]:
    """Makes folders for servers; short of name, and open to the user that PostgreSQL runs as."""
    root = Path(tempfile.mkdtemp(prefix="warrener-"))
    root.chmod(0o711)

    def make(name: str) -> Path:
        return root / f"{name}-{uuid4().hex[:8]}"

    yield make
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def broker(server_folders: Callable[[str], Path]) -> Iterator[PrivateRabbitMQ]:
    """The session's RabbitMQ. Leave it running: to kill one, take `own_rabbitmq`."""
    try:
        node = PrivateRabbitMQ(server_folders("rabbitmq"))
    except ServerMissing as missing:
        pytest.skip(str(missing))
    node.start()
    yield node
    node.kill()


@pytest.fixture
def vhost_url(broker: PrivateRabbitMQ) -> Iterator[str]:
    """The URL of a virtual host in which nothing is declared yet."""
    name = f"test-{uuid4().hex[:12]}"
    yield broker.add_vhost(name)
    broker.drop_vhost(name)


@pytest.fixture
def own_rabbitmq(server_folders: Callable[[str], Path]) -> Iterator[PrivateRabbitMQ]:
    """A running node of this test's own, to kill, pause or restart. It costs five seconds."""
    try:
        node = PrivateRabbitMQ(server_folders("own-rabbitmq"))
    except ServerMissing as missing:
        pytest.skip(str(missing))
    node.start()
    yield node
    node.kill()


@pytest.fixture(scope="session")
def postgres(server_folders: Callable[[str], Path]) -> Iterator[PrivatePostgres]:
    """The session's PostgreSQL."""
    try:
        server = PrivatePostgres(server_folders("postgres"))
    except ServerMissing as missing:
        pytest.skip(str(missing))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def postgres_url(postgres: PrivatePostgres) -> Iterator[str]:
    """The URL of an empty database."""
    name = f"test_{uuid4().hex[:12]}"
    yield postgres.add_database(name)
    postgres.drop_database(name)


@pytest.fixture
def own_postgres(server_folders: Callable[[str], Path]) -> Iterator[PrivatePostgres]:
    """A running PostgreSQL of this test's own, to kill, pause or restart."""
    try:
        server = PrivatePostgres(server_folders("own-postgres"))
    except ServerMissing as missing:
        pytest.skip(str(missing))
    server.start()
    yield server
    server.kill()
