"""The servers that tests run on; gone with the test run.

`broker` and `postgres` live as long as the session; `vhost_url` and `postgres_url` give each test a fresh
place of its own in them, `sqlite_store_url` and `postgres_store_url` an empty store. A test that kills its
server takes `own_rabbitmq` or `own_postgres`; `rabbitmq_cluster` has three nodes. They are private processes
or containers, as tests/servers/choosing.py says; a test that can have neither is skipped and says why.
"""

import asyncio
import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import pytest
import structlog
from hypothesis import settings
from tests.file_times import SETTING as TIMES
from tests.file_times import read_times, start_order, write_times
from tests.servers.choosing import CHOICE, chosen_servers
from tests.servers.cluster import RabbitMQCluster
from tests.servers.kinds import PostgresServer, RabbitMQServer, Server, Servers
from tests.servers.mortal import MortalRabbitMQ
from tests.servers.standby import StandbyPostgres

import warrener_runtime.log_output  # noqa: F401 - configures logs that nobody has configured, before the first test
from warrener_devservers import ServerMissing
from warrener_runtime.lifecycle import gc_tuning
from warrener_store import migrate

S = TypeVar("S", bound=Server)
_SECONDS = defaultdict[str, float](float)
"""How long each file has taken in this run, so far."""

# Hundreds of processes are started here. Without bytecode files each of them compiles all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell that starts tests in the background has SIGINT ignored in all that they start; Ctrl-C is tested.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Property tests are judged by what they find, not by how busy the machine is, whichever of them are run.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


def pytest_report_header() -> str:
    """Say at the top on what the tests run."""
    return f"servers: {os.environ.get(CHOICE, 'auto')} ({CHOICE})"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected, and never look again at what all tests share: it is a
    million objects, and each test process has them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc_tuning.freeze(gc_tuning.FREQUENT)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where test processes share the files, start them in an order that ends early."""
    if hasattr(config, "workerinput"):
        order = start_order((_file_of(item.nodeid) for item in items), read_times())
        place = {path: number for number, path in enumerate(order)}
        items.sort(key=lambda item: place[_file_of(item.nodeid)])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count what each file takes, with its fixtures."""
    _SECONDS[_file_of(report.nodeid)] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was counted, if that is what the run was for."""
    if (file := os.environ.get(TIMES)) and not hasattr(session.config, "workerinput"):
        write_times(_SECONDS, Path(file))


def _file_of(node: str) -> str:
    return node.partition("::")[0]


@pytest.fixture(scope="session")
def servers() -> Servers:
    """What makes the servers."""
    return chosen_servers()


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
def broker(servers: Servers, server_folders: Callable[[str], Path]) -> Iterator[RabbitMQServer]:
    """The session's RabbitMQ. Leave it running: to kill one, take `own_rabbitmq`."""
    with _running(servers.rabbitmq, server_folders("rabbitmq")) as node:
        yield node


@pytest.fixture
def vhost_url(broker: RabbitMQServer) -> Iterator[str]:
    """The URL of a virtual host in which nothing is declared yet."""
    name = f"test-{uuid4().hex[:12]}"
    yield broker.add_vhost(name)
    broker.drop_vhost(name)


@pytest.fixture(scope="session")
def mortal_rabbitmq(servers: Servers, server_folders: Callable[[str], Path]) -> Iterator[MortalRabbitMQ]:
    """The session's other RabbitMQ, which tests kill."""
    with MortalRabbitMQ(lambda: servers.rabbitmq(server_folders("own-rabbitmq"))) as one:
        yield one


@pytest.fixture
def own_rabbitmq(mortal_rabbitmq: MortalRabbitMQ) -> RabbitMQServer:
    """A running, empty node that no other test uses meanwhile, to kill, pause or restart."""
    try:
        return mortal_rabbitmq.hand_out()
    except ServerMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def rabbitmq_cluster(server_folders: Callable[[str], Path]) -> Iterator[RabbitMQCluster]:
    """The session's cluster of three nodes, private processes whatever was chosen. A test leaves it whole."""
    try:
        cluster = RabbitMQCluster(server_folders("cluster"))
    except ServerMissing as missing:
        pytest.skip(str(missing))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture(scope="session")
def postgres(servers: Servers, server_folders: Callable[[str], Path]) -> Iterator[PostgresServer]:
    """The session's PostgreSQL."""
    with _running(servers.postgres, server_folders("postgres")) as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty database."""
    name = f"test_{uuid4().hex[:12]}"
    yield postgres.add_database(name)
    postgres.drop_database(name)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the tables of a store, to copy: a copy takes a hundredth of a migration's time."""
    path = tmp_path_factory.mktemp("template") / "store.db"
    asyncio.run(migrate(f"sqlite:///{path}"))
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres: PostgresServer) -> str:
    """The name of a database with the tables of a store, to copy."""
    name = "store_template"
    asyncio.run(migrate(postgres.add_database(name)))
    return name


@pytest.fixture
def sqlite_store_url(sqlite_template: Path, tmp_path: Path) -> str:
    """The URL of an empty store in a file."""
    return f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'state.db')}"


@pytest.fixture
def postgres_store_url(postgres: PostgresServer, postgres_template: str) -> str:
    """The URL of an empty store in a database, which goes with the server."""
    return postgres.add_database(f"store_{uuid4().hex[:12]}", postgres_template)


@pytest.fixture
def own_postgres(servers: Servers, server_folders: Callable[[str], Path]) -> Iterator[PostgresServer]:
    """A running PostgreSQL of this test's own, to kill, pause or restart."""
    with _running(servers.postgres, server_folders("own-postgres")) as server:
        yield server


@pytest.fixture
def own_standby(
    own_postgres: PostgresServer, server_folders: Callable[[str], Path]
) -> Iterator[StandbyPostgres]:
    """A standby that follows `own_postgres`."""
    with _running(lambda folder: StandbyPostgres(folder, own_postgres), server_folders("standby")) as server:
        yield server


@contextmanager
def _running(make: Callable[[Path], S], folder: Path) -> Generator[S]:
    """A started server, which leaves nothing behind."""
    try:
        server = make(folder)
        try:
            server.start()
            yield server
        finally:
            server.remove()
    except ServerMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Logging is global to a process: each test leaves it as it was found."""
    libraries = [logging.getLogger(name) for name in (None, "aiormq", "aio_pika")]
    before = structlog.get_config()
    levels, handlers = [library.level for library in libraries], libraries[0].handlers[:]
    yield
    structlog.configure(**before)
    structlog.contextvars.clear_contextvars()
    logging.captureWarnings(capture=False)
    libraries[0].handlers = handlers
    for library, level in zip(libraries, levels, strict=True):
        library.setLevel(level)
